"""Score an answer's entities against the ground truth by precision, recall and F1.

The ground truth maps each type to its facts. A fact is a group of acceptable variants. An answer
states a fact if its text or an extracted entity of the type states a variant (see `matching.find`).
Types without ground truth do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from operator import add
from typing import Any

from rag_pipeline.datamodels import Entity
from rag_pipeline.evaluation.entities.matching import find, value_of, words_of
from rag_pipeline.evaluation.intervals import mean_of_known
from rag_pipeline.evaluation.metrics import Metric

FactGroups = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of extracted and right entities, and of expected and found facts."""

    extracted: int = 0
    right: int = 0
    facts: int = 0
    found: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(add, astuple(self), astuple(other)))

    @property
    def precision(self) -> float | None:
        """Return right / extracted, or None if nothing was extracted."""
        return self.right / self.extracted if self.extracted else None

    @property
    def recall(self) -> float | None:
        """Return found / facts, or None if there are no facts."""
        return self.found / self.facts if self.facts else None

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall, or None if there are no facts.

        Source: van Rijsbergen, Information Retrieval, 1979.
        """
        return None if self.recall is None else _harmonic_mean(self.precision or 0.0, self.recall)

    def record(self) -> dict[str, float | None]:
        """Return the counts with precision, recall and F1."""
        rates = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**asdict(self), **rates}


@dataclass(frozen=True, slots=True)
class EntityScore:
    """One answer's counts by type, and its found and missed facts."""

    by_type: Mapping[str, Counts] = field(default_factory=dict)
    critical_types: tuple[str, ...] = ()
    facts: tuple[tuple[str, str, bool], ...] = ()
    """Type and first variant of each fact, and whether it was found."""
    stated: int = 0
    """Number of entities of any type, including types without ground truth."""
    right: int = 0
    """Number of these entities that state an expected fact."""

    @property
    def total(self) -> Counts:
        """Return the counts over all types."""
        return sum(self.by_type.values(), Counts())

    @property
    def critical_recall(self) -> float | None:
        """Return the recall over the critical types, or None if these types have no facts."""
        critical = (self.by_type.get(kind, Counts()) for kind in self.critical_types)
        return sum(critical, Counts()).recall


ENTITY_METRICS: tuple[Metric[EntityScore], ...] = (
    Metric(
        name="EntityPrecision", measure=lambda score: score.total.precision, headline=False,
        definition="Share of the facts in an answer that are right.",
    ),
    Metric(
        name="EntityOpenPrecision", headline=False,
        measure=lambda score: score.right / score.stated if score.stated else None,
        definition="Share of an answer's entities of any type that state an expected fact.",
    ),
    Metric(
        name="EntityRecall", measure=lambda score: score.total.recall, headline=False,
        definition="Share of the expected facts that an answer states.",
    ),
    Metric(
        name="EntityF1", measure=lambda score: score.total.f1,
        definition="Harmonic mean of the share of right facts and the share of facts found.",
    ),
    Metric(
        name="CriticalRecall", measure=lambda score: score.critical_recall,
        definition="EntityRecall of the query's critical types alone.",
    ),
)  # fmt: skip


def score_entities(
    answer: str,
    extracted: Iterable[Entity],
    truth: FactGroups,
    critical_types: Sequence[str] = (),
    similarity: float = 88.0,
) -> EntityScore:
    """Count an answer's entities and facts, by type of the ground truth.

    Entities of equal value count once. A fact that only the text states counts as one extracted and
    right entity. Entities that occur only inside such a fact do not count. `similarity` is a
    percentage (see `matching.find`).
    """
    entities = list(extracted)
    by_type: dict[str, Counts] = {}
    facts: list[tuple[str, str, bool]] = []
    all_right = 0
    for kind, groups in truth.items():
        of_type = _distinct(kind, [e.text for e in entities if e.kind == kind])
        right: set[str] = set()
        parts: set[str] = set()
        found = unextracted = 0
        for variants in groups:
            stating = {
                entity
                for entity in of_type
                if any(find(kind, variant, entity, similarity) for variant in variants)
            }
            right |= stating
            places = [] if stating else [find(kind, v, answer, similarity) for v in variants]
            place = next(filter(None, places), None)
            if place:
                said = answer[slice(*place)]
                parts |= {e for e in of_type if answer.count(e) == said.count(e)}
            in_text = bool(stating or place)
            found += in_text
            unextracted += place is not None
            facts.append((kind, variants[0], in_text))
        all_right += len(right)
        by_type[kind] = Counts(
            extracted=len(set(of_type) - (parts - right)) + unextracted,
            right=len(right) + unextracted,
            facts=len(groups),
            found=found,
        )
    kinds = dict.fromkeys(e.kind for e in entities)
    stated = sum(len(_distinct(k, [e.text for e in entities if e.kind == k])) for k in kinds)
    return EntityScore(by_type, tuple(critical_types), tuple(facts), stated, all_right)


def summarize_entities(scores: Iterable[EntityScore]) -> dict[str, Any]:
    """Summarize the scores of the queries with facts, as plain values.

    `micro` and `by_type` have `Counts.record` over all queries. The `mean_` values are means over
    queries. `mean_precision` leaves out queries without entities. `f1_of_means` is the harmonic
    mean of the mean precision and the mean recall. Papers publish `f1_of_means` or `mean_f1`.
    """
    judged = [score for score in scores if score.total.facts]
    by_type: dict[str, Counts] = {}
    for score in judged:
        for kind, counts in score.by_type.items():
            by_type[kind] = by_type.get(kind, Counts()) + counts
    precision = mean_of_known(score.total.precision for score in judged)
    recall = mean_of_known(score.total.recall for score in judged)
    return {
        "queries": len(judged),
        "micro": sum(by_type.values(), Counts()).record(),
        "by_type": {kind: counts.record() for kind, counts in by_type.items()},
        "mean_precision": precision,
        "mean_recall": recall,
        "mean_f1": mean_of_known(score.total.f1 for score in judged),
        "f1_of_means": None if recall is None else _harmonic_mean(precision or 0.0, recall),
        "mean_critical_recall": mean_of_known(score.critical_recall for score in judged),
    }


def _harmonic_mean(one: float, other: float) -> float:
    return 2 * one * other / (one + other) if one + other else 0.0


def _distinct(kind: str, texts: Iterable[str]) -> list[str]:
    kept: dict[object, str] = {}
    for text in texts:
        kept.setdefault(value_of(kind, text) or words_of(text).stems, text)
    return list(kept.values())
