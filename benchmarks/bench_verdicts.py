"""Simulate how often intervals hold the truth, verdicts are right, and the gate refuses.

    python -m benchmarks.bench_verdicts [--draws 300] [--only coverage|verdicts|power|gate]

Prints the tables of docs/measurements.md.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.shared import heading, options, row
from rag_pipeline.config import Gate
from rag_pipeline.evaluation.intervals import difference_interval, mean_interval
from rag_pipeline.evaluation.significance import (
    compare_family,
    decide,
    differences,
    loss_p_values,
)
from rag_pipeline.release.margins import REFUSED, MetricComparison, decide_metric, spent

SIZES = (30, 71, 200, 487)
LOSSES = (0.0, 0.02, 0.05, 0.10)
GAINS = (0.0, 0.05, 0.1, 0.2)
SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)


def probabilities(rng: np.random.Generator, mean: float, groups: Sequence[str] | None, n: int):
    """Return each question's chance: the mean, or one chance per group."""
    if groups is None:
        return np.full(n, mean)
    of_group = rng.beta(4 * mean, 4 * (1 - mean), size=len(set(groups)))
    return of_group[np.unique(groups, return_inverse=True)[1]]


def tens(n: int) -> list[str]:
    return [f"{i // 10:03}" for i in range(n)]


def coverage(draws: int, grouped: bool) -> None:
    heading("n", *(f"p = {p:g}" for p in SHARES), "difference")
    for n in (30, 50, 60, 120, 500):
        rng = np.random.default_rng(n)
        groups = tens(n) if grouped else None
        held = [0] * (len(SHARES) + 1)
        for at, p in enumerate(SHARES):
            for _ in range(draws):
                values = rng.random(n) < probabilities(rng, p, groups, n)
                low, high = mean_interval(values.astype(float).tolist(), groups)
                held[at] += low <= p <= high
        for _ in range(draws):
            chance = probabilities(rng, 0.8, groups, n), probabilities(rng, 0.8, groups, n)
            one, other = (rng.random(n) < c for c in chance)
            low, high = difference_interval((one * 1.0 - other).tolist(), groups)
            held[-1] += low <= 0 <= high
        row(n, *(f"{100 * number / draws:.0f} %" for number in held))


def false_verdicts(draws: int) -> None:
    """Equal systems on 200 questions in 20 documents that are hard for one system or another."""
    groups = [f"{i // 10:03}" for i in range(200)]
    for family, label in ((1, "one comparison"), (24, "24 configurations against one")):
        rng = np.random.default_rng(family)
        wrong = 0
        for _ in range(draws):
            base = rng.random(200) < probabilities(rng, 0.8, groups, 200)
            pairs = {}
            for i in range(family):
                own = rng.random(200) < probabilities(rng, 0.8, groups, 200)
                pairs[str(i)] = list(zip(own * 1.0, base * 1.0, strict=True))
            found = compare_family(pairs, groups=dict.fromkeys(pairs, groups))
            wrong += any(c.verdict != "cannot tell" for c in found.values())
        row(label, f"{100 * wrong / draws:.1f} %")
    rng = np.random.default_rng(100)
    histories = max(20, draws // 6)
    wrong = 0
    for _ in range(histories):
        base = rng.random(71) < 0.8
        said = []
        for night in range(1, 101):
            own = rng.random(71) < 0.8
            pairs = {"m": paired(own * 1.0, base * 1.0)}
            said.append(compare_family(pairs, spent(night))["m"].verdict)
        wrong += "worse" in said
    row('100 nightly candidates, "worse" in any night', f"{100 * wrong / histories:.1f} %")


def power(draws: int) -> None:
    """Two systems that find the same questions hard; the first is better by `gain`.

    The first comparison is one of a family. The other members have a p value of 1, which is the
    hardest case for Holm.
    """
    for family in (1, 23):
        print(f"\ncomparisons in the family: {family}; better / worse in percent of the draws\n")
        heading("n", *(f"gain {100 * x:.0f} points" for x in GAINS))
        for n in (50, 100, 200, 500):
            equal = differences({"equal": [(0.0, 0.0)] * n})["equal"]
            rest = {f"equal {i}": equal for i in range(family - 1)}
            cells = []
            for gain in GAINS:
                rng = np.random.default_rng(n)
                drawn = (outcomes(rng, n, gain, 0.0, None) for _ in range(draws))
                pairs = {str(i): paired(base, own) for i, (own, base) in enumerate(drawn)}
                found = [decide({"m": d, **rest})["m"].verdict for d in differences(pairs).values()]
                shares = (100 * found.count(word) / draws for word in ("better", "worse"))
                cells.append(" / ".join(f"{share:.1f}" for share in shares))
            row(n, *cells)


def paired(own: np.ndarray, base: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(own.tolist(), base.tolist(), strict=True))


def refused(own: np.ndarray, base: np.ndarray, groups: Sequence[str] | None) -> bool:
    """Return whether a gate's first comparison refuses."""
    pairs = paired(own, base)
    ids = [f"q{i}" for i in range(len(pairs))]
    units = ids if groups is None else list(groups)
    alpha = spent(1)
    comparison = compare_family({"m": pairs}, alpha, groups={"m": units})["m"]
    gains = {i: one - other for i, (one, other) in zip(ids, pairs, strict=True)}
    loss = loss_p_values({"m": gains}, dict(zip(ids, units, strict=True)))["m"]
    found = MetricComparison(
        comparison=comparison, pairs=pairs, groups=units, lower_is_better=False, loss=loss
    )
    return decide_metric(found, Gate(), alpha)[0] in REFUSED


@cache
def shift(loss: float) -> float:
    """Return the loss of each question's chance, cut at 0, whose mean is `loss`."""
    chances = np.random.default_rng(0).beta(2, 1, size=20_000)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        reached = float(np.mean(chances - np.maximum(chances - middle, 0)))
        low, high = (middle, high) if reached < loss else (low, middle)
    return high


def outcomes(
    rng: np.random.Generator, n: int, loss: float, agree: float, groups: Sequence[str] | None
):
    """Return answers of candidate and release; a share `agree` of the answers is the same.

    Documents suit the candidate better or worse by a normal deviation of 0.1.
    """
    hard = rng.beta(2, 1, size=n)
    lost = shift(loss / (1 - agree)) if loss else 0.0
    base = rng.random(n) < hard
    chance = np.maximum(hard - lost, 0)
    if groups is not None:
        code = np.unique(groups, return_inverse=True)[1]
        chance = np.clip(chance + rng.normal(0, 0.1, size=code.max() + 1)[code], 0, 1)
    own = rng.random(n) < chance
    return np.where(rng.random(n) < agree, base, own) * 1.0, base * 1.0


def gate(draws: int) -> None:
    for agree, grouped in ((0.5, False), (0.5, True), (0.0, False)):
        told = "; ten questions a document" if grouped else ""
        print(f"\nshare of answers that are the same in both: {100 * agree:.0f} %{told}\n")
        heading("queries", "equal", *(f"-{100 * x:.0f} points" for x in LOSSES[1:]))
        for n in SIZES:
            rng = np.random.default_rng(n)
            cells = []
            groups = tens(n) if grouped else None
            for loss in LOSSES:
                # The rate of false refusals is small: it takes more draws to tell.
                number = draws if loss else 3 * draws
                drawn = (outcomes(rng, n, loss, agree, groups) for _ in range(number))
                found = [refused(own, base, groups) for own, base in drawn]
                cells.append(f"{100 * np.mean(found):.0f} %")
            row(n, *cells)


def main() -> None:
    parts = ("all", "coverage", "verdicts", "power", "gate")
    arguments = options(__doc__, draws=300, only=parts)
    draws, only = arguments.draws, arguments.only
    if only in ("all", "coverage"):
        print("## Coverage of the 95 % intervals, independent questions\n")
        coverage(draws, grouped=False)
        print("\n## … ten questions a document, documents of different difficulty\n")
        coverage(draws, grouped=True)
    if only in ("all", "verdicts"):
        print("\n## False verdicts, equal systems\n")
        heading("", "said")
        false_verdicts(draws)
    if only in ("all", "power"):
        print("\n## Verdicts on a true gain")
        power(draws)
    if only in ("all", "gate"):
        print("\n## Refusals by the first comparison of a gate")
        gate(draws)


if __name__ == "__main__":
    main()
