"""How often the comparison is wrong where nothing differs, and right where something does.

python -m benchmarks.bench_significance

Two configurations answer the same simulated questions, whose difficulty both share: it is drawn
from Beta(2, 1) for each question, and the better one answers it with `gain` more probability.
"""

import argparse

import numpy as np

from rag_pipeline.evaluation.significance import decide, differences

GAINS = (0.0, 0.05, 0.1, 0.2)
SIZES = (50, 100, 200, 500)


def outcomes(draws: int, n: int, gain: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return draws x n outcomes, 0 or 1, of the better and the other configuration.

    A probability past 1 is cut; the gain is raised until its mean over questions is as asked.
    """
    rng = np.random.default_rng(seed)
    hard = rng.beta(2, 1, size=(draws, n))
    low, high = gain, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        reached = float(np.mean(np.minimum(hard + middle, 1) - hard))
        low, high = (middle, high) if reached < gain else (low, middle)
    chance = np.minimum(hard + (high if gain else 0.0), 1)
    one = (rng.random((draws, n)) < chance).astype(float)
    other = (rng.random((draws, n)) < hard).astype(float)
    return one, other


def verdicts(one: np.ndarray, other: np.ndarray, family: int) -> dict[str, float]:
    """Return the share of draws called better and worse, each the first of a family whose other
    members have a p value of 1: the hardest case for Holm."""
    pairs = {
        str(i): list(zip(a.tolist(), b.tolist(), strict=True))
        for i, (a, b) in enumerate(zip(one, other, strict=True))
    }
    equal = differences({"equal": [(0.0, 0.0)] * one.shape[1]})["equal"]
    rest = {f"equal {i}": equal for i in range(family - 1)}
    found = [decide({"m": d, **rest})["m"].verdict for d in differences(pairs).values()]
    return {word: found.count(word) / len(found) for word in ("better", "worse")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000)
    arguments = parser.parse_args()
    print(f"{arguments.draws} draws of Answer Presence, in percent of the draws")
    for family in (1, 23):
        print(f"\n{family} comparison{'s' if family > 1 else ''} in the family")
        print(f"  {'n':>5} {'true gain':>10} {'better':>8} {'worse':>8}")
        for n in SIZES:
            for gain in GAINS:
                one, other = outcomes(arguments.draws, n, gain, seed=n)
                share = verdicts(one, other, family)
                said = f"{100 * share['better']:8.1f} {100 * share['worse']:8.1f}"
                print(f"  {n:5d} {100 * gain:10.0f} {said}")


if __name__ == "__main__":
    main()
