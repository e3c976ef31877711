"""Whose models the steps of a corpus call, and whether they are paid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from rag_pipeline.calls.costs import FREE, CallKind, ChargedTokens, Learned, vendor
from rag_pipeline.config import (
    ChatSettings,
    Configuration,
    CorpusConfig,
    EmbeddingSettings,
    ExtractiveAnswers,
    PassageReranker,
    RemoteModel,
    Settings,
)
from rag_pipeline.config.endpoints import model_of
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


def paid_models(workspace: Workspace, step: Step) -> list[Payee]:
    """Return whose calls a step makes, without those that are free: by a model on this machine.

    A retrieval run's reranker is left out; see `paid_reranker`.
    """
    models = _models_of(workspace.config, step)
    payees = [payee_of(workspace, settings) for settings in models]
    return list(dict.fromkeys(payee for payee in payees if payee is not None))


def calls_a_model(config: CorpusConfig, step: Step) -> bool:
    """Return whether a step calls a model, here or elsewhere."""
    return bool(_models_of(config, step))


def called_vendor(config: CorpusConfig, step: Step) -> str | None:
    """Return whose model a step calls first, here or elsewhere; None if it calls none."""
    return next((_vendor(settings) for settings in _models_of(config, step)), None)


def paid_reranker(workspace: Workspace, configuration: Configuration) -> Payee | None:
    """Return who charges for reranking a configuration's candidates, None where it is free."""
    config = workspace.config
    reranker = config.rerankers[configuration.reranker]
    if not isinstance(reranker, PassageReranker):
        return None
    return payee_of(workspace, reranker.chat_used(config) or reranker)


def pays(workspace: Workspace, step: Step) -> bool:
    """Return whether a step calls a model that is not free."""
    if paid_models(workspace, step):
        return True
    if step.asset == "retrieval_run":
        return paid_reranker(workspace, _configuration(workspace.config, step)) is not None
    return bool(searching_models(workspace, step))


def searching_models(workspace: Workspace, step: Step) -> list[ModelSettings | PassageReranker]:
    """Return the models, paid or prompted, that answers search with for want of an answer."""
    config = workspace.config
    if step.asset != "answers" or not isinstance(config.evaluation.answers, ExtractiveAnswers):
        return []
    configuration = _configuration(config, step)
    embedding = config.embeddings[configuration.embedding]
    reranker = config.rerankers[configuration.reranker]
    used: list[ModelSettings | PassageReranker] = [embedding]
    if isinstance(reranker, PassageReranker):
        used.append(reranker.chat_used(config) or reranker)
    return [one for one in used if payee_of(workspace, one) is not None]


def learned_of(workspace: Workspace, step: Step) -> Callable[[CallKind, Settings | None], Learned]:
    """Return what is known of the tokens of the models that a step pays, by the kind of call."""
    config = workspace.config
    payees: dict[CallKind, Payee | None] = {}
    for model in _models_of(config, step)[:1]:
        own: CallKind = "chat" if isinstance(model, ChatSettings) else "embedding"
        payees[own] = payee_of(workspace, model)
    if step.asset == "retrieval_run":
        configuration = _configuration(config, step)
        reranker = config.rerankers[configuration.reranker]
        scoring: CallKind = "chat" if reranker.chat_used(config) else "rerank"
        payees[scoring] = paid_reranker(workspace, configuration)

    @cache
    def of_payee(kind: CallKind, payee: Payee | None) -> Learned:
        if payee is None:
            return Learned()
        return workspace.ledger.learned(payee.provider, payee.model, kind, step.asset)

    def learned(kind: CallKind, model: Settings | None) -> Learned:
        if isinstance(model, ChatSettings | EmbeddingSettings | PassageReranker):
            return of_payee(kind, payee_of(workspace, model))
        return of_payee(kind, payees.get(kind))

    return learned


def price(workspace: Workspace, payee: Payee | None, tokens: ChargedTokens | None) -> float | None:
    """Return what calls would cost in USD, None where their tokens or their price is not known."""
    if payee is None:
        return 0.0
    known = workspace.ledger.prices.price(payee.provider, payee.model)
    return None if known is None or tokens is None else known.usd(tokens, payee.batch)


def asks_a_chat(config: CorpusConfig, step: Step) -> bool:
    """Return whether a step asks a chat model, a run's reranker left out."""
    return any(isinstance(model, ChatSettings) for model in _models_of(config, step))


def payee_of(workspace: Workspace, settings: ModelSettings | PassageReranker) -> Payee | None:
    """Return who charges for a model's calls, None where it is free."""
    provider, model = _vendor(settings), model_of(settings)
    is_free = workspace.ledger.prices.price(provider, model) == FREE
    return (
        None
        if is_free
        else Payee(provider, model, isinstance(settings, ChatSettings) and settings.batch)
    )


def _vendor(settings: ModelSettings | PassageReranker) -> str:
    own = settings.method if isinstance(settings, PassageReranker) else settings.provider
    return vendor(own, settings.base_url if isinstance(settings, RemoteModel) else None)


def _models_of(config: CorpusConfig, step: Step) -> Sequence[ModelSettings]:
    return step.row.models(config, step.key(config))


def _configuration(config: CorpusConfig, step: Step) -> Configuration:
    return config.configuration(step.partition or "")
