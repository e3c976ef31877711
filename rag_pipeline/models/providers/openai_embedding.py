"""Embedding models behind the OpenAI protocol, through the `openai` SDK."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import openai

from rag_pipeline.calls import Received, unreachable
from rag_pipeline.config.models import EmbedRequest, InputType
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers.openai import OpenAIEmbedding
from rag_pipeline.models.providers.remote import RequestBuilder, Server, identity, read_vectors

_HOME = "https://api.openai.com/v1"


class OpenAIEmbedder(RequestBuilder):
    """One embedding model of one server; documents and queries are treated alike."""

    def __init__(self, settings: OpenAIEmbedding) -> None:
        super().__init__(settings)
        usual = self.limits.dimensions[0] if self.limits.dimensions else None
        self._shorten = settings.shorten or (usual is not None and self.dimension != usual)
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.provider, settings, settings.model, _HOME)
        self.identity = identity(
            self._server,
            self.model,
            self.dimension,
            self.limits.text_tokens if settings.truncate else "whole",
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EmbedRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        # The endpoint retries and keeps the time; the SDK's timeout is for a single read.
        async with openai.AsyncOpenAI(
            api_key=server.key, base_url=server.address, timeout=self._timeout, max_retries=0
        ) as client:

            async def embed(
                inputs: Sequence[Sequence[str]], input_type: InputType
            ) -> tuple[Vectors, Usage]:
                texts = self.fit([text for texts in inputs for text in texts])
                tokens = self.tokens(inputs)

                async def attempt() -> Received[tuple[Vectors, Usage]]:
                    async with server.paying("embedding", tokens, texts):
                        return await self._attempt(client, texts)

                return await server.endpoint.send(attempt, tokens)

            yield embed

    async def _attempt(
        self, client: openai.AsyncOpenAI, texts: list[str]
    ) -> Received[tuple[Vectors, Usage]]:
        server = self._server
        try:
            raw = await client.embeddings.with_raw_response.create(
                model=self.model,
                input=texts,
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
        vectors = read_vectors(
            [row.embedding for row in rows], len(texts), self.dimension, server.what
        )
        self.refuse_cut(used, texts)
        return Received((vectors, used), raw.headers, used.input_tokens or None)
