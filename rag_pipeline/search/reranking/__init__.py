"""Reorder a retriever's candidates by their token vectors, or by a model that reads them."""

from collections.abc import Callable, Mapping, Sequence

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import charging
from rag_pipeline.config import ChatSettings
from rag_pipeline.config.rerankers import (
    FunctionReranker,
    ModelReranker,
    Relevance,
    RerankerSettings,
    RerankInput,
)
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.search.reranking.passages import score_passages
from rag_pipeline.workspace import Workspace


def passage_scorer(
    workspace: Workspace,
    settings: RerankerSettings,
    counts: CallCounts | None = None,
    chats: Mapping[str, ChatSettings] | None = None,
) -> Callable[[Sequence[RerankInput]], list[Relevance]] | None:
    """Return a function that scores the passages of queries through the call cache.

    Return None if the reranker reads no passages. `chats` overrides the chat models of the same
    names.
    """
    if isinstance(settings, FunctionReranker):
        models = workspace.models(counts, chats)
        return lambda asked: settings.relevance(asked, models)
    if not isinstance(settings, ModelReranker):
        return None

    def charged(asked: Sequence[RerankInput]) -> list[Relevance]:
        with charging(workspace.ledger):
            scorer = open_scorer(workspace.config.located(settings))
            return score_passages(asked, scorer, workspace.cache, counts)

    return charged
