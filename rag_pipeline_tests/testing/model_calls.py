"""Models of a test's server, and what they reply."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from rag_pipeline.calls import CallCache
from rag_pipeline.config import Embedding, Reranker
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers import open_embedder, open_scorer
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.model_replies import DIMENSION


def chat(url: str, **changes: Any) -> ChatModel:
    settings = {"provider": "openai", "model": "m", "base_url": url, "batch_poll_seconds": 0}
    return ChatModel.model_validate(settings | changes)


def embedder(url: str, **changes: Any) -> Any:
    settings = {"provider": "openai", "model": "m", "base_url": url, "dimensions": DIMENSION}
    return open_embedder(TypeAdapter(Embedding).validate_python(settings | changes))


def scorer(url: str, **changes: Any) -> Any:
    settings = {"method": "cohere", "model": "m", "base_url": url}
    return open_scorer(TypeAdapter(Reranker).validate_python(settings | changes))


def texts(replies: Sequence[object]) -> list[str]:
    """Return the text of each reply, and the message of each error."""
    return [r.text if isinstance(r, Reply) else f"failed: {r}" for r in replies]


def asked(prompts: Sequence[str], settings: ChatModel, cache: CallCache) -> list[str]:
    """Ask prompts; return what each comes to, as `texts` does."""
    return texts(ask([Prompt(prompt) for prompt in prompts], settings, cache))
