"""Few gold labels and a judge's labels of all queries -> a mean with its 95 % interval.

The judge's mean over all queries is corrected by its errors on the queries with gold. Source:
prediction-powered inference (Angelopoulos et al., Science 2023), with the judge's weight of PPI++
(Angelopoulos, Duchi and Zrnic, 2023). The corrected mean is unbiased for any judge, and a better
judge makes the interval narrower.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rag_pipeline.evaluation.intervals import mean_interval, variance_of_mean, wilson

_UNSEEN = 0.5
"""Weight of one more query on which a YES-or-NO judge errs."""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A judged mean corrected by gold, with the means that it is made from.

    `labelled` counts the queries with both labels, `judged` all queries with a judge's label.
    `weight` is the judge's weight: 0 for a useless judge, about 1 for one as good as gold.
    `gold_low` and `gold_high` bound the interval by gold alone.
    """

    mean: float
    low: float
    high: float
    labelled: int
    judged: int
    weight: float
    judge_mean: float
    gold_mean: float
    gold_low: float
    gold_high: float

    @property
    def sentence(self) -> str:
        """Return a sentence for people."""
        return (
            f"{100 * self.mean:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}], corrected by "
            f"{self.labelled} gold labels; the judge says {100 * self.judge_mean:.1f} % on "
            f"{self.judged} questions, gold alone {100 * self.gold_mean:.1f} % "
            f"[{100 * self.gold_low:.1f}, {100 * self.gold_high:.1f}]"
        )


def corrected_mean(
    gold: Mapping[str, float | None],
    judged: Mapping[str, float | None],
    groups: Mapping[str, str] | None = None,
) -> CorrectedMean | None:
    """Return the mean of a measure in 0..1 over all judged queries, corrected by gold.

    Both are values by query id. The queries with gold must be a random sample of all. `groups`
    names the group of each query (see `mean_interval`). Returns None below three queries with both
    labels, and without further judged queries.
    """
    known = {q: v for q, v in judged.items() if v is not None}
    both = sorted(q for q, v in gold.items() if v is not None and q in known)
    others = [known[q] for q in sorted(set(known) - set(both))]
    if len(both) < 3 or not others:
        return None
    y, f = [float(gold[q] or 0.0) for q in both], [known[q] for q in both]
    n, more = len(both), len(others)
    of_group = [groups.get(q, f"query {q}") for q in both] if groups is not None else None
    gold_mean, own_mean = math.fsum(y) / n, math.fsum(f) / n
    every = list(known.values())
    centre = math.fsum(every) / len(every)
    spread = math.fsum((v - centre) ** 2 for v in every) / (len(every) - 1)
    shared = math.fsum(
        (a - gold_mean) * (b - own_mean) for a, b in zip(y, f, strict=True)
    ) / (n - 1)  # fmt: skip
    weight = max(0.0, shared / ((1 + n / more) * spread)) if spread > 0 else 0.0
    rest = [a - weight * b for a, b in zip(y, f, strict=True)]
    other_mean = math.fsum(others) / more
    mean = (
        gold_mean if not weight else min(1.0, max(0.0, weight * other_mean + math.fsum(rest) / n))
    )
    rest_mean = math.fsum(rest) / n
    variance, _, freedom = variance_of_mean(rest, rest_mean, of_group)
    unseen = _UNSEEN if set(every) <= {0.0, 1.0} else 0.0
    variance += unseen * weight**2 / n**2 + weight**2 * spread / more
    gold_low, gold_high = mean_interval(y, of_group)
    # Equal gold labels say nothing about the judge.
    low, high = wilson(mean, variance, freedom) if weight else (gold_low, gold_high)
    return CorrectedMean(
        mean, low, high, n, len(known), weight, centre, gold_mean, gold_low, gold_high
    )  # fmt: skip
