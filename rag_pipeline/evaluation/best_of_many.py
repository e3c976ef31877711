"""The best of many configurations -> its mean on queries that did not choose it.

The best mean of many is too high, because the same queries chose it. Cross-fitting chooses on some
folds and measures on the others (Varma and Simon, BMC Bioinformatics 2006).
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.evaluation.summary import Summary, summarize

FOLDS = 10
_REPEATS = 5
_FEWEST = 10


@dataclass(frozen=True, slots=True)
class BestOfMany:
    """The measure of the best configuration, on queries that did not choose it.

    `naive` is the best mean over all queries. `honest` is the mean of the choices on the folds left
    out. `again` is the share of these choices that are the best configuration over all.
    """

    metric: str
    configurations: int
    best: str
    naive: float
    honest: Summary
    again: float

    @property
    def sentence(self) -> str:
        """Return a sentence for people."""
        honest = self.honest
        held = (
            f" [{100 * honest.low:.1f}, {100 * honest.high:.1f}]"
            if honest.low is not None and honest.high is not None
            else ""
        )
        return (
            f"best of {self.configurations} by {self.metric}: {100 * self.naive:.1f} % on the "
            f"questions that chose it, {100 * (honest.mean or 0.0):.1f} %{held} on questions that "
            f"did not ({100 * self.again:.0f} % of the choices fell on it)"
        )


def best_of_many(
    metric: str, values: Mapping[str, Mapping[str, float | None]], groups: Mapping[str, str]
) -> BestOfMany | None:
    """Return the cross-fitted measure; None for one configuration or few queries.

    `values` holds each configuration's values by query; only queries that all have are used.
    `groups` names the group of a query; a group is never divided. Folds are reproducible.
    """
    known = [{q for q, v in own.items() if v is not None} for own in values.values()]
    common = sorted(set.intersection(*known)) if known else []
    unit = {q: groups.get(q, f"query {q}") for q in common}
    units = sorted(set(unit.values()))
    if len(values) < 2 or len(units) < _FEWEST:
        return None
    columns = {name: [float(own[q] or 0.0) for q in common] for name, own in values.items()}
    whole = range(len(common))
    best = _best(columns, whole)
    chosen: Counter[str] = Counter()
    held = [0.0] * len(common)
    for repeat in range(_REPEATS):
        fold_of = _folds(units, repeat)
        for fold in range(min(FOLDS, len(units))):
            out = [i for i in whole if fold_of[unit[common[i]]] == fold]
            winner = _best(columns, [i for i in whole if fold_of[unit[common[i]]] != fold])
            chosen[winner] += 1
            for i in out:
                held[i] += columns[winner][i] / _REPEATS
    return BestOfMany(
        metric,
        len(values),
        best,
        math.fsum(columns[best]) / len(common),
        summarize(held, [unit[q] for q in common]),
        chosen[best] / chosen.total(),
    )


def _folds(units: Sequence[str], repeat: int) -> dict[str, int]:
    order = sorted(units, key=lambda u: hashlib.sha256(f"{repeat}:{u}".encode()).digest())
    return {u: number % min(FOLDS, len(units)) for number, u in enumerate(order)}


def _best(columns: Mapping[str, Sequence[float]], rows: Sequence[int]) -> str:
    return max(columns, key=lambda name: math.fsum(columns[name][i] for i in rows))
