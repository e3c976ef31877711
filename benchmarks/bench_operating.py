"""Operating characteristics of the report's intervals and of the release gate, by simulation.

    python -m benchmarks.bench_operating [--draws 400] [--only best|labels]

The generator is its own: the latent difficulty of a question is a normal number with a part of its
document, and each configuration adds a part of its own, again by question and by document. Measured
are the functions that the leaderboard, the report and the gate call. Prints the tables of
docs/measurements.md.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, owens_t

from benchmarks.shared import heading, options, row
from rag_pipeline.evaluation.best_of_many import best_of_many
from rag_pipeline.evaluation.prediction_powered import corrected_mean

Answers = npt.NDArray[np.float64]

DOCUMENT_SHARE = 0.3
"""Share of the variance of the latent difficulty that the questions of a document share."""
A_DOCUMENT = 10
"""Number of questions of a document, where documents have effects."""


@cache
def latent_correlation(p: float, correlation: float) -> float:
    """Return the latent correlation at which answers, right with `p`, correlate so much.

    Owen's T gives the chance that two normal numbers are both below a bound.
    """
    low, high, bound = 0.0, 1.0, ndtri(p)
    for _ in range(50):
        middle = (low + high) / 2
        both = ndtr(bound) - 2 * owens_t(bound, np.sqrt((1 - middle) / (1 + middle)))
        below = (both - p * p) / (p * (1 - p)) < correlation
        low, high = (middle, high) if below else (low, middle)
    return low


def difficulty(
    rng: np.random.Generator, shape: tuple[int, ...], documents: npt.NDArray[np.int64] | None
) -> Answers:
    own = rng.standard_normal(shape)
    if documents is None:
        return own
    effects = rng.standard_normal((*shape[:-1], documents.max() + 1))[..., documents]
    return np.sqrt(DOCUMENT_SHARE) * effects + np.sqrt(1 - DOCUMENT_SHARE) * own


def answers(
    rng: np.random.Generator,
    means: Sequence[float],
    correlation: float,
    n: int,
    documents: npt.NDArray[np.int64] | None = None,
) -> Answers:
    """Return 0/1 answers, configurations x questions."""
    shared = np.sqrt(latent_correlation(round(float(np.mean(means)), 3), correlation))
    common = difficulty(rng, (n,), documents)
    apart = difficulty(rng, (len(means), n), documents)
    hard = shared * common + np.sqrt(1 - shared**2) * apart
    return (hard < ndtri(np.array(means))[:, None]) * 1.0


def in_documents(n: int, a_document: int) -> npt.NDArray[np.int64]:
    return np.arange(n) // a_document


def by_id(values: Iterable[float]) -> dict[str, float]:
    return {f"q{i:05}": float(v) for i, v in enumerate(values)}


def groups_of(documents: npt.NDArray[np.int64] | None) -> dict[str, str]:
    return {} if documents is None else {f"q{i:05}": f"d{d}" for i, d in enumerate(documents)}


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def best(draws: int) -> None:
    """Print how often the interval of the best holds the true mean of the one that is named."""
    print("\n## Best of many\n")
    heading("questions", "configurations", "correlation 0", "0.5", "0.9")
    kinds: dict[str, Callable[[int], Sequence[float]]] = {
        "equal": lambda number: [0.8] * number,
        "0.70 to 0.85": lambda number: np.linspace(0.7, 0.85, number).tolist(),
    }
    for kind, means in kinds.items():
        for n, a_document in ((30, 0), (71, 0), (200, 0), (200, A_DOCUMENT)):
            for number in (2, 6, 24):
                cells = [best_cell(draws, n, a_document, means(number), c) for c in (0, 0.5, 0.9)]
                of = f" of {n // a_document} documents" if a_document else ""
                row(f"{n}{of}", f"{number}, {kind}", *cells)


def best_cell(
    draws: int, n: int, a_document: int, means: Sequence[float], correlation: float
) -> str:
    rng = np.random.default_rng(n + a_document)
    documents = in_documents(n, a_document) if a_document else None
    groups, names = groups_of(documents), [f"c{i}" for i in range(len(means))]
    held, found = 0, []
    for _ in range(draws):
        drawn = answers(rng, means, correlation, n, documents)
        values = {name: by_id(row) for name, row in zip(names, drawn, strict=True)}
        chosen = best_of_many("AnswerPresence@5", values, groups)
        assert chosen is not None and chosen.honest.low is not None
        assert chosen.honest.mean is not None and chosen.honest.high is not None
        truth = means[names.index(chosen.best)]
        held += chosen.honest.low <= truth <= chosen.honest.high
        found.append(chosen.honest.mean - truth)
    return f"{percent(held / draws)} ({100 * np.mean(found):+.1f})"


def labels(draws: int) -> None:
    """Print coverage and bias of judged means that few gold labels correct."""
    print("\n## Few gold labels and a judge\n")
    heading("labels of questions", "right", "judge right in 80 %", "95 %", "100 %", "gold alone")
    for n, of, a_document in ((30, 300, 0), (30, 300, 10), (60, 600, 10), (100, 300, 10)):
        for p in (0.5, 0.8, 0.9):
            cells = [labels_cell(draws, n, of, a_document, p, right) for right in (0.8, 0.95, 1.0)]
            within = f" of {of // a_document} documents" if a_document else ""
            own = [cell for cell, _ in cells]
            row(f"{n} of {of}{within}", percent(p), *own, cells[-1][1])


def labels_cell(
    draws: int, n: int, of: int, a_document: int, p: float, right: float
) -> tuple[str, str]:
    rng = np.random.default_rng(of + a_document)
    documents = in_documents(of, a_document) if a_document else None
    groups = groups_of(documents)
    rows = []
    for _ in range(draws):
        truth = answers(rng, [p], 0.0, of, documents)[0]
        judged = np.where(rng.random(of) < right, truth, 1 - truth)
        known = set(rng.choice(of, n, replace=False).tolist())
        gold = {q: v for i, (q, v) in enumerate(by_id(truth).items()) if i in known}
        found = corrected_mean(gold, by_id(judged), groups)
        assert found is not None
        alone = found.gold_low <= p <= found.gold_high
        held, wide = found.low <= p <= found.high, found.high - found.low
        rows.append((held, found.mean - p, wide, alone, found.gold_high - found.gold_low))
    held, bias, wide, alone, before = np.mean(np.array(rows, float), axis=0)
    own = f"{percent(held)} ({100 * bias:+.1f}; {100 * wide:.0f} wide)"
    return own, f"{percent(alone)} ({100 * before:.0f} wide)"


SECTIONS: dict[str, Callable[[int], None]] = {"best": best, "labels": labels}


def main() -> None:
    arguments = options(__doc__, draws=400, only=("all", *SECTIONS))
    for name, section in SECTIONS.items():
        if arguments.only in ("all", name):
            section(arguments.draws)


if __name__ == "__main__":
    main()
