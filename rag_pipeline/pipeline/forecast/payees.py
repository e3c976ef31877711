"""Whose models the steps of a corpus call, and whether they are paid."""

from dataclasses import dataclass
from typing import Any

from rag_pipeline.calls.costs import FREE, Tokens, vendor
from rag_pipeline.config import (
    ChatSettings,
    Configuration,
    CorpusConfig,
    PassageReranker,
)
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace

_JUDGES = {
    "relevance_labels": "relevance",
    "answers": "answers",
    "entity_scores": "entities",
    "context_scores": "context",
}
"""The sections of `evaluation` that may name a chat model."""


@dataclass(frozen=True, slots=True)
class Payee:
    """Who charges for a step's calls."""

    provider: str
    model: str
    batch: bool = False

    def __str__(self) -> str:
        return f"{self.provider} {self.model}"


def paid_model(workspace: Workspace, step: Step) -> Payee | None:
    """Return whose calls a step makes, None where they are free: by a model on this machine.

    A retrieval run's reranker is left out; see `paid_reranker`.
    """
    settings = _model(workspace.config, step)
    return None if settings is None else _payee(workspace, settings)


def calls_a_model(config: CorpusConfig, step: Step) -> bool:
    """Return whether a step calls a model, here or elsewhere."""
    return _model(config, step) is not None


def provider_of(config: CorpusConfig, step: Step) -> str | None:
    """Return whose model a step calls, here or elsewhere; None if it calls none."""
    settings = _model(config, step)
    return None if settings is None else _vendor(settings)


def paid_reranker(workspace: Workspace, configuration: Configuration) -> Payee | None:
    """Return who charges for reranking a configuration's candidates, None where it is free."""
    config = workspace.config
    reranker = config.rerankers[configuration.reranker]
    if not isinstance(reranker, PassageReranker):
        return None
    return _payee(workspace, reranker.chat_asked(config) or reranker)


def pays(workspace: Workspace, step: Step) -> bool:
    """Return whether a step calls a model that is not free."""
    if paid_model(workspace, step) is not None:
        return True
    configuration = step.partition or ""
    return step.asset == "retrieval_run" and (
        paid_reranker(workspace, workspace.config.configuration(configuration)) is not None
    )


def price(workspace: Workspace, payee: Payee | None, tokens: Tokens | None) -> float | None:
    """Return what calls would cost in USD, None where their tokens or their price is not known."""
    if payee is None:
        return 0.0
    known = workspace.ledger.prices.price(payee.provider, payee.model)
    return None if known is None or tokens is None else known.usd(tokens, payee.batch)


def chat_of(config: CorpusConfig, step: Step) -> ChatSettings | None:
    """Return the chat model that a step asks, a reranker's left out; None if it asks none."""
    if step.asset == "contextualized_chunks":
        settings = config.contextualizers[(step.partition or "").split(".")[1]]
        chats = (one for one in settings.asked(config) if isinstance(one, ChatSettings))
        return next(chats, None)
    chat = getattr(getattr(config.evaluation, _JUDGES.get(step.asset, ""), None), "chat", None)
    return config.chat(chat) if chat else None


def _model(config: CorpusConfig, step: Step) -> Any:
    """Return the settings of the model that a step calls, None if it calls none."""
    key = step.partition or ""
    if step.asset == "chunks":
        return next(iter(config.chunkings[key].asked(config)), None)
    if step.asset == "vector_index":
        return config.embeddings[key.split(".")[2]]
    if step.asset == "retrieval_run":
        return config.embeddings[config.configuration(key).embedding]
    return chat_of(config, step)


def _vendor(settings: Any) -> str:
    method = getattr(settings, "method", None)  # a reranker's; others have a provider
    return vendor(method or settings.provider, getattr(settings, "base_url", None))


def _payee(workspace: Workspace, settings: Any) -> Payee | None:
    provider = _vendor(settings)
    model = getattr(settings, "model", provider)
    is_free = workspace.ledger.prices.price(provider, model) == FREE
    return None if is_free else Payee(provider, model, getattr(settings, "batch", False))
