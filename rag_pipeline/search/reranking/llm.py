"""Score passages with a chat model, one call per passage."""

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.rerankers import FunctionReranker, Relevance, RerankInput
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import Prompt, Reply, object_schema
from rag_pipeline.errors import ProviderError

_PROMPT = """\
Query: {query}

Passage:
{passage}

How well does the passage answer the query? Score it from 0 (it has nothing to do with it) to 1 \
(it answers it fully)."""
_SCORE = object_schema({"score": {"type": "number", "minimum": 0, "maximum": 1}})


class LLMReranker(FunctionReranker):
    """Reranks by scores of 0 to 1 from a chat model of `chats`, with one call per passage."""

    method: Literal["llm"]
    chat: ChatName
    candidates: int = Field(default=20, ge=1, le=1000)
    prompt: str = _PROMPT

    @field_validator("prompt")
    @classmethod
    def _has_both(cls, prompt: str) -> str:
        for name in ("{query}", "{passage}"):
            if name not in prompt:
                raise ValueError(f"the prompt has no {name}")
        return prompt

    def relevance(self, asked: Sequence[RerankInput], models: Models) -> list[Relevance]:
        """Return the scores of each query's passages, or the first error of the query's calls."""
        prompts = [
            Prompt(_filled(self.prompt, query, passage), schema=_SCORE)
            for query, passages in asked
            for passage in passages
        ]
        replies = iter(models.ask(prompts, self.chat))
        results: list[Relevance] = []
        for _, passages in asked:
            own = [next(replies) for _ in passages]
            errors = [reply for reply in own if isinstance(reply, ProviderError)]
            scores = [float(reply.data["score"]) for reply in own if isinstance(reply, Reply)]
            results.append(errors[0] if errors else scores)
        return results


def _filled(prompt: str, query: str, passage: str) -> str:
    values = {"{query}": query, "{passage}": passage}
    return re.sub(r"\{query\}|\{passage\}", lambda place: values[place[0]], prompt)
