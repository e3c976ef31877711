"""The settings of rerankers: late interaction, cross-encoders, chat models."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rag_pipeline.config.settings import RemoteModel, Settings


class NoReranker(Settings):
    """Keep the retriever's order."""

    method: Literal["none"]


class MaxSimReranker(Settings):
    """Late interaction over token vectors, needing an embedding with `token_vectors`.

    The `candidates` best score (1 - weight) x what the retriever gave (scaled to 0..1, except
    that `weighted` fusion is on that scale already) + weight x MaxSim (scaled to 0..1).
    """

    method: Literal["maxsim"]
    weight: float = Field(default=0.4, ge=0.0, le=1.0)
    candidates: int = Field(default=100, ge=1, le=1000)


class _PassageReranker(Settings):
    """A model that reads query and passage together, over the retriever's first `candidates`.

    They are ordered by its scores; the others follow in the retriever's order. When it fails on a
    query the run stops, or, with `on_error: keep_order`, the query keeps the retriever's order
    and is counted.
    """

    candidates: int = Field(default=50, ge=1, le=1000)
    on_error: Literal["fail", "keep_order"] = "fail"


class _RemoteReranker(_PassageReranker, RemoteModel):
    """A reranker behind an API; passages over its window are cut only with `truncate`."""

    truncate: bool = False


class VoyageReranker(_RemoteReranker):
    """Voyage's rerankers."""

    method: Literal["voyage"]
    model: str = Field(default="rerank-2.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"


class CohereReranker(_RemoteReranker):
    """Cohere's rerankers (API v2)."""

    method: Literal["cohere"]
    model: str = Field(default="rerank-v3.5", min_length=1)
    api_key_env: str = "COHERE_API_KEY"


class JinaReranker(_RemoteReranker):
    """Jina's rerankers, or with `base_url` a server that speaks its protocol.

    vLLM, llama.cpp and Infinity do: `base_url` is what stands before `/rerank`.
    """

    method: Literal["jina"]
    model: str = Field(default="jina-reranker-v2-base-multilingual", min_length=1)
    api_key_env: str = "JINA_API_KEY"


class FlashRankReranker(_PassageReranker):
    """A cross-encoder from a local folder by the package flashrank; nothing is downloaded.

    The folder is called as flashrank calls the model, such as `ms-marco-MiniLM-L-12-v2`.
    """

    operational: ClassVar[frozenset[str]] = frozenset({"path"})
    method: Literal["flashrank"]
    model: str = Field(default="ms-marco-MiniLM-L-12-v2", min_length=1)
    path: str
    max_tokens: int = Field(default=512, ge=16)
    truncate: bool = False


_PROMPT = """\
Query: {query}

Passage:
{passage}

How well does the passage answer the query? Score it from 0 (it has nothing to do with it) to 1 \
(it answers it fully)."""


class LLMReranker(_PassageReranker):
    """Scores 0..1 by a chat model of `chats`, one call for each passage."""

    method: Literal["llm"]
    chat: str
    candidates: int = Field(default=20, ge=1, le=1000)
    prompt: str = _PROMPT

    @field_validator("prompt")
    @classmethod
    def _has_both(cls, prompt: str) -> str:
        for name in ("{query}", "{passage}"):
            if name not in prompt:
                raise ValueError(f"the prompt has no {name}")
        return prompt


PassageReranker = VoyageReranker | CohereReranker | JinaReranker | FlashRankReranker | LLMReranker
Reranker = Annotated[NoReranker | MaxSimReranker | PassageReranker, Field(discriminator="method")]
