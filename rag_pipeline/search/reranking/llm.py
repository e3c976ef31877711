"""Score passages with a chat model, one call per passage."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.rerankers import FunctionReranker, Relevance, RerankInput
from rag_pipeline.config.settings import ChatName, CorpusFile
from rag_pipeline.datamodels import Reply
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.prompts import Shown, object_schema, template_of

_PROMPT = template_of(__file__)
_SCORE = object_schema({"score": {"type": "number", "minimum": 0, "maximum": 1}})


class LLMReranker(FunctionReranker):
    """A reranker by scores of 0 to 1 from a chat model of `chats`, with one call per passage.

    A custom `prompt` must contain the placeholders `{query}` and `{passage}`. Their texts stand
    between delimiters.
    """

    method: Literal["llm"]
    chat: ChatName
    candidates: int = Field(default=20, ge=1, le=1000)
    prompt: Annotated[str | None, AfterValidator(_PROMPT.check)] = None

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model and the prompt."""
        return [*super().made_from(config), _PROMPT.using(self.prompt).version]

    def relevance(self, asked: Sequence[RerankInput], models: Models) -> list[Relevance]:
        """Return for each query the scores of its passages, or the first error of its calls."""
        template = _PROMPT.using(self.prompt)
        prompts = [
            template.prompt(query=one.query, passage=Shown(*passage), schema=_SCORE)
            for one in asked
            for passage in zip_longest(one.passages, one.documents, fillvalue="")
        ]
        replies = iter(models.ask(prompts, self.chat))
        results: list[Relevance] = []
        for one in asked:
            own = [next(replies) for _ in one.passages]
            errors = [reply for reply in own if isinstance(reply, ProviderError)]
            scores = [float(reply.data["score"]) for reply in own if isinstance(reply, Reply)]
            results.append(errors[0] if errors else scores)
        return results
