"""Whose models the steps of a corpus call, and whether they are paid."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from rag_pipeline.calls.costs import FREE, ChargedTokens, Kind, Learned, vendor
from rag_pipeline.config import (
    ChatSettings,
    Configuration,
    CorpusConfig,
    PassageReranker,
)
from rag_pipeline.pipeline.asset import ModelSettings
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace


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
    settings = step.row.model(workspace.config, step.key(workspace.config))
    return None if settings is None else payee_of(workspace, settings)


def calls_a_model(config: CorpusConfig, step: Step) -> bool:
    """Return whether a step calls a model, here or elsewhere."""
    return step.row.model(config, step.key(config)) is not None


def provider_of(config: CorpusConfig, step: Step) -> str | None:
    """Return whose model a step calls, here or elsewhere; None if it calls none."""
    settings = step.row.model(config, step.key(config))
    return None if settings is None else _vendor(settings)


def paid_reranker(workspace: Workspace, configuration: Configuration) -> Payee | None:
    """Return who charges for reranking a configuration's candidates, None where it is free."""
    config = workspace.config
    reranker = config.rerankers[configuration.reranker]
    if not isinstance(reranker, PassageReranker):
        return None
    return payee_of(workspace, reranker.chat_asked(config) or reranker)


def pays(workspace: Workspace, step: Step) -> bool:
    """Return whether a step calls a model that is not free."""
    if paid_model(workspace, step) is not None:
        return True
    configuration = step.partition or ""
    return step.asset == "retrieval_run" and (
        paid_reranker(workspace, workspace.config.configuration(configuration)) is not None
    )


def learned_of(workspace: Workspace, step: Step) -> Callable[[Kind], Learned]:
    """Return what is known of the tokens of the models that a step pays, by the kind of call."""
    config = workspace.config
    model = step.row.model(config, step.key(config))
    own: Kind = "chat" if isinstance(model, ChatSettings) else "embedding"
    payees: dict[Kind, Payee | None] = {own: paid_model(workspace, step)}
    if step.asset == "retrieval_run":
        configuration = config.configuration(step.partition or "")
        reranker = config.rerankers[configuration.reranker]
        scoring: Kind = "chat" if reranker.chat_asked(config) else "rerank"
        payees[scoring] = paid_reranker(workspace, configuration)

    @cache
    def learned(kind: Kind) -> Learned:
        payee = payees.get(kind)
        if payee is None:
            return Learned()
        return workspace.ledger.learned(payee.provider, payee.model, kind, step.asset)

    return learned


def price(workspace: Workspace, payee: Payee | None, tokens: ChargedTokens | None) -> float | None:
    """Return what calls would cost in USD, None where their tokens or their price is not known."""
    if payee is None:
        return 0.0
    known = workspace.ledger.prices.price(payee.provider, payee.model)
    return None if known is None or tokens is None else known.usd(tokens, payee.batch)


def chat_of(config: CorpusConfig, step: Step) -> ChatSettings | None:
    """Return the chat model that a step asks, a reranker's left out; None if it asks none."""
    model = step.row.model(config, step.key(config))
    return model if isinstance(model, ChatSettings) else None


def _vendor(settings: ModelSettings | PassageReranker) -> str:
    own = settings.method if isinstance(settings, PassageReranker) else settings.provider
    return vendor(own, getattr(settings, "base_url", None))


def payee_of(workspace: Workspace, settings: ModelSettings | PassageReranker) -> Payee | None:
    """Return who is paid for a model's calls, None where it is free."""
    provider = _vendor(settings)
    model = getattr(settings, "model", provider)
    is_free = workspace.ledger.prices.price(provider, model) == FREE
    return None if is_free else Payee(provider, model, getattr(settings, "batch", False))
