"""Find the models that the steps of a corpus call, and their prices."""

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
class PricedModel:
    """A model whose calls cost money."""

    provider: str
    model: str
    batch: bool = False

    def __str__(self) -> str:
        return f"{self.provider} {self.model}"


def paid_models(workspace: Workspace, step: Step) -> list[PricedModel]:
    """Return the paid models that a step calls, except the reranker (see `paid_reranker`)."""
    priced = (priced_model(workspace, used) for used in _models_of(workspace.config, step))
    return list(dict.fromkeys(model for model in priced if model is not None))


def called_vendor(config: CorpusConfig, step: Step) -> str | None:
    """Return the vendor of the first model that a step calls, or None if it calls none."""
    return next((_vendor(settings) for settings in _models_of(config, step)), None)


def paid_reranker(workspace: Workspace, configuration: Configuration) -> PricedModel | None:
    """Return the paid model that reranks a configuration's candidates, or None if there is none."""
    used = _reranker_of(workspace.config, configuration)
    return priced_model(workspace, used) if used else None


def pays(workspace: Workspace, step: Step) -> bool:
    """Return whether a step calls a paid model."""
    if paid_models(workspace, step):
        return True
    if step.asset == "retrieval_run":
        return paid_reranker(workspace, _configuration(workspace.config, step)) is not None
    return bool(searching_models(workspace, step))


def searching_models(workspace: Workspace, step: Step) -> list[ModelSettings | PassageReranker]:
    """Return the paid models of the second search of extractive answers.

    Extractive answers search again if the first passages hold no answer. Return [] for any other
    step.
    """
    config = workspace.config
    if step.asset != "answers" or not isinstance(config.evaluation.answers, ExtractiveAnswers):
        return []
    configuration = _configuration(config, step)
    used = config.embeddings[configuration.embedding], _reranker_of(config, configuration)
    return [one for one in used if one and priced_model(workspace, one) is not None]


def learned_of(workspace: Workspace, step: Step) -> Callable[[CallKind, Settings | None], Learned]:
    """Return a function that returns the learned token counts of a step's models.

    The function takes the kind of call and the model's settings. If the settings are None, the
    function uses the step's model for this kind of call.
    """
    config = workspace.config
    priced: dict[CallKind, PricedModel | None] = {}
    for model in _models_of(config, step)[:1]:
        own: CallKind = "chat" if isinstance(model, ChatSettings) else "embedding"
        priced[own] = priced_model(workspace, model)
    if step.asset == "retrieval_run":
        configuration = _configuration(config, step)
        reranker = config.rerankers[configuration.reranker]
        scoring: CallKind = "chat" if reranker.chat_used(config) else "rerank"
        priced[scoring] = paid_reranker(workspace, configuration)

    @cache
    def of_model(kind: CallKind, model: PricedModel | None) -> Learned:
        if model is None:
            return Learned()
        return workspace.ledger.learned(model.provider, model.model, kind, step.asset)

    def learned(kind: CallKind, model: Settings | None) -> Learned:
        if isinstance(model, ChatSettings | EmbeddingSettings | PassageReranker):
            return of_model(kind, priced_model(workspace, model))
        return of_model(kind, priced.get(kind))

    return learned


def price(
    workspace: Workspace, model: PricedModel | None, tokens: ChargedTokens | None
) -> float | None:
    """Return the cost of calls in USD, or None if their tokens or their price are unknown."""
    if model is None:
        return 0.0
    known = workspace.ledger.prices.price(model.provider, model.model)
    return None if known is None or tokens is None else known.usd(tokens, model.batch)


def asks_a_chat(config: CorpusConfig, step: Step) -> bool:
    """Return whether a step calls a chat model. A reranker does not count."""
    return any(isinstance(model, ChatSettings) for model in _models_of(config, step))


def priced_model(
    workspace: Workspace, settings: ModelSettings | PassageReranker
) -> PricedModel | None:
    """Return the model in the settings, or None if its calls are free."""
    provider, model = _vendor(settings), model_of(settings)
    if workspace.ledger.prices.price(provider, model) == FREE:
        return None
    return PricedModel(provider, model, isinstance(settings, ChatSettings) and settings.batch)


def _vendor(settings: ModelSettings | PassageReranker) -> str:
    own = settings.method if isinstance(settings, PassageReranker) else settings.provider
    return vendor(own, settings.base_url if isinstance(settings, RemoteModel) else None)


def _reranker_of(
    config: CorpusConfig, configuration: Configuration
) -> ModelSettings | PassageReranker | None:
    reranker = config.rerankers[configuration.reranker]
    if not isinstance(reranker, PassageReranker):
        return None
    return reranker.chat_used(config) or reranker


def _models_of(config: CorpusConfig, step: Step) -> Sequence[ModelSettings]:
    return step.row.models(config, step.key(config))


def _configuration(config: CorpusConfig, step: Step) -> Configuration:
    return config.configuration(step.partition or "")
