"""Embedding models behind the OpenAI protocol, through the `openai` SDK."""

import openai

from rag_pipeline.calls import unreachable
from rag_pipeline.config.models import InputType
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers.openai import OpenAIEmbedding
from rag_pipeline.models.providers.openai_sdk import client_of
from rag_pipeline.models.providers.remote import RequestBuilder, VectorsReply, identity

_HOME = "https://api.openai.com/v1"


class OpenAIEmbedder(RequestBuilder):
    """One embedding model of one server; documents and queries are treated alike."""

    def __init__(self, settings: OpenAIEmbedding) -> None:
        super().__init__(settings, _HOME)
        usual = self.limits.dimensions[0] if self.limits.dimensions else None
        self._shorten = settings.shorten or (usual is not None and self.dimension != usual)
        cut = self.limits.text_tokens if settings.truncate else "whole"
        self.identity = identity(self._server, self.model, self.dimension, cut)

    def connected(self) -> openai.AsyncOpenAI:
        """Open the connections of the running event loop."""
        return client_of(self._server.key, self._server.address, self._timeout)

    async def ask(
        self, client: openai.AsyncOpenAI, inputs: list[list[str]], input_type: InputType
    ) -> VectorsReply:
        """Return a reply's vectors in order, its charged use and headers; raise ProviderError."""
        server = self._server
        try:
            raw = await client.embeddings.with_raw_response.create(
                model=self.model,
                input=[text for texts in inputs for text in texts],
                dimensions=self.dimension if self._shorten else openai.omit,
            )
            made = raw.parse()
            used = Usage(made.usage.prompt_tokens if made.usage else 0)
            server.charge("embedding", used)
            rows = sorted(made.data, key=lambda row: row.index)
        except openai.APIStatusError as error:
            headers = error.response.headers
            raise server.refusal(error.status_code, error.message, headers) from None
        except openai.APIConnectionError as error:
            raise unreachable(server.what, error, server.key) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise TransientError(
                f"{server.what}: the reply is not a list of vectors: {str(error)[:80]}"
            ) from None
        if [row.index for row in rows] != list(range(len(rows))):
            raise TransientError(f"{server.what}: the reply does not say which vector is whose")
        return [row.embedding for row in rows], used, raw.headers
