"""What a language model does for the assistant, and what happens where it fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rag_pipeline.assistant.answering import Formed
from rag_pipeline.assistant.intent import Intent
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import CallsStoppedError, MissingExtraError, ProviderError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reflection:
    """A review of an answer: its verdicts, and a better answer or None where this one stands."""

    verdicts: Mapping[str, bool]
    better: Formed | None = None


class Model(Protocol):
    """What a language model does for the assistant; without one, rules do it.

    Each raises ProviderError where the model fails; then a rule does it, see `or_rule`.
    """

    def rewrite(self, query: str) -> str:
        """Return the query in clearer words."""

    def detect(self, query: str) -> Intent:
        """Return the query's intent."""

    def keywords(
        self, query: str, document_id: str, texts: Sequence[str], instructions: str
    ) -> Sequence[str]:
        """Return boosted queries for one document, of which `texts` are the best passages."""

    def answer(
        self, query: str, intent: Intent, chunks: Sequence[ScoredChunk], instructions: str
    ) -> Formed:
        """Return an answer that cites the chunks by number."""

    def reflect(
        self,
        query: str,
        intent: Intent,
        formed: Formed,
        chunks: Sequence[ScoredChunk],
        instructions: str,
    ) -> Reflection:
        """Review an answer, and better it where it is wanting."""


def or_rule(detail: dict[str, Any], step: str, ask: Callable[[], T], rule: Callable[[], T]) -> T:
    """Return what a model says, else what a rule does; `detail` then says why, under `by_rule`.

    Where no call can work (a wrong key, no budget, a missing package) the error is raised: what
    is set up wrongly must not look like an answer.
    """
    try:
        return ask()
    except (CallsStoppedError, MissingExtraError):
        raise
    except ProviderError as error:
        detail.setdefault("by_rule", {})[step] = str(error)[:300]
        return rule()
