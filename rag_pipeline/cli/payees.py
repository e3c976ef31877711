"""Whose models the steps of a corpus call, and whether they are paid."""

from dataclasses import dataclass
from typing import Any

from rag_pipeline.calls.costs import FREE, vendor
from rag_pipeline.cli.questions import judge_of
from rag_pipeline.config import (
    ChatModel,
    CorpusConfig,
    LLMContext,
    PassageReranker,
)
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Payee:
    """Who charges for a step's calls."""

    provider: str
    model: str
    batch: bool = False


def paid_model(workspace: Workspace, step: Step) -> Payee | None:
    """Return whose calls a step makes, None where they are free: by a model on this machine."""
    config = workspace.config
    names = (step.partition or "").split(".")
    settings: Any = chat_of(config, step)
    if step.asset == "chunks":
        settings = next(iter(config.chunkings[names[0]].asked(config)), None)
    elif step.asset == "vector_index":
        settings = config.embeddings[names[2]]
    elif step.asset == "retrieval_run":
        settings = config.embeddings[config.configuration(step.partition or "").embedding]
    return None if settings is None else payee_of(workspace, settings)


def paid_models(workspace: Workspace, step: Step) -> list[Payee]:
    """Return whose calls a step makes, a paid reranker included."""
    config = workspace.config
    payees = [paid_model(workspace, step)]
    if step.asset == "retrieval_run":
        reranker = config.rerankers[config.configuration(step.partition or "").reranker]
        if isinstance(reranker, PassageReranker):
            payees.append(payee_of(workspace, config.reranker_chat(reranker) or reranker))
    return [payee for payee in payees if payee is not None]


def payee_of(workspace: Workspace, settings: Any) -> Payee | None:
    """Return who charges for a model's calls, None where they are free."""
    settings_method = getattr(settings, "method", None)  # a reranker's; others have a provider
    provider = vendor(settings_method or settings.provider, getattr(settings, "base_url", None))
    model = getattr(settings, "model", provider)
    price = workspace.ledger.prices.price(provider, model)
    is_free = price is not None and price == FREE
    return None if is_free else Payee(provider, model, getattr(settings, "batch", False))


def chat_of(config: CorpusConfig, step: Step) -> ChatModel | None:
    """Return the chat model that a step asks."""
    if step.asset != "contextualized_chunks":
        return judge_of(config, step.asset)
    settings = config.contextualizers[(step.partition or "").split(".")[1]]
    return config.chat(settings.chat) if isinstance(settings, LLMContext) else None
