"""A reranker's settings -> the model behind it, called through a corpus's cache and ledger."""

from collections.abc import Callable, Sequence

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import charging
from rag_pipeline.config import ChatSettings, LLMReranker, PassageReranker, Reranker
from rag_pipeline.models.chat import ask
from rag_pipeline.models.providers import open_scorer
from rag_pipeline.search.reranking.passages import Asked, Relevance, score_by_chat, score_passages
from rag_pipeline.workspace import Workspace


def passage_scorer(
    workspace: Workspace,
    settings: Reranker,
    chat: ChatSettings | None,
    counts: CallCounts | None = None,
) -> Callable[[Sequence[Asked]], list[Relevance]] | None:
    """Return a function from queries with passages to their scores, through the call cache.

    None for rerankers that read no passages. `chat` is the model of one that asks one.
    """
    if not isinstance(settings, PassageReranker):
        return None

    def charged(asked: Sequence[Asked]) -> list[Relevance]:
        with charging(workspace.ledger):
            if isinstance(settings, LLMReranker):
                assert chat is not None
                return score_by_chat(
                    asked, settings, lambda prompts: ask(prompts, chat, workspace.cache, counts)
                )
            scorer = open_scorer(workspace.config.located(settings))
            return score_passages(asked, scorer, workspace.cache, counts)

    return charged
