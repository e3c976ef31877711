"""Operating characteristics of the report's intervals and of the release gate, by simulation.

    python -m benchmarks.bench_operating [--draws 400] [--only best|labels|gate|ratchet]

The generator is its own: the latent difficulty of a question is a normal number with a part of its
document, and each configuration adds a part of its own, again by question and by document. Measured
are the functions that the leaderboard, the report and the gate call. Prints the tables of
docs/measurements.md.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, owens_t

from benchmarks.shared import heading, options, row
from rag_pipeline.config import Gate
from rag_pipeline.evaluation.best_of_many import best_of_many
from rag_pipeline.evaluation.prediction_powered import corrected_mean
from rag_pipeline.evaluation.scores import Scores
from rag_pipeline.release.drift import compare_with_reference, new_reference
from rag_pipeline.release.gate import compare_scores
from rag_pipeline.release.margins import REFUSED, spent

Answers = npt.NDArray[np.float64]

DOCUMENT_SHARE = 0.3
"""Share of the variance of the latent difficulty that the questions of a document share."""
METRICS_SHARE = 0.7
"""Share of the variance of a configuration's own part that its metrics have in common."""
METRICS = ("AnswerPresence@5", "nDCG@10", "CriticalRecall")
NIGHTS = 1000
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


def metrics_of(
    rng: np.random.Generator,
    means: Sequence[float],
    correlation: float,
    n: int,
    documents: npt.NDArray[np.int64] | None,
    number: int,
) -> list[Scores]:
    """Return the scores of each configuration; its metrics share most of what is its own."""
    shared = np.sqrt(latent_correlation(round(float(np.mean(means)), 3), correlation))
    common = difficulty(rng, (n,), documents)
    found: list[Scores] = []
    for mean in means:
        own = difficulty(rng, (n,), documents)
        each = difficulty(rng, (number, n), documents)
        apart = np.sqrt(METRICS_SHARE) * own + np.sqrt(1 - METRICS_SHARE) * each
        hard = shared * common + np.sqrt(1 - shared**2) * (own[None] if number == 1 else apart)
        rows = (hard < ndtri(mean)) * 1.0
        found.append(dict(zip(METRICS, map(by_id, rows), strict=False)))
    return found


def gate(draws: int) -> None:
    """Print how often the gate refuses, and the loss that it says it would see."""
    print("\n## Refusals by the first comparison of the gate\n")
    losses = (0.0, 0.02, 0.05, 0.1, 0.2)
    shown = [f"-{100 * loss:.0f}" for loss in losses[1:]]
    heading(
        "questions", "metrics", "correlation", "equal", *shown, "loss it states", "at that loss"
    )
    sizes = (
        (30, 2),
        (71, 0),
        (200, 0),
        (400, 0),
        (30, 3),
        (40, 4),
        (50, 5),
        (71, 3),
        (71, 8),
        (71, 27),
        (200, 20),
    )
    for n, documents in sizes:
        of = in_documents(n, -(-n // documents)) if documents else None
        for number in (1, 3):
            for correlation in (0.5, 0.9):
                rng = np.random.default_rng(n + documents)
                found = [gate_cell(rng, draws, n, of, x, number, correlation) for x in losses]
                stated = found[0][1]
                at = gate_cell(rng, draws, n, of, min(stated, 0.79), number, correlation)[0]
                within = f" of {documents} documents" if documents else ""
                cells = [percent(refused) for refused, _ in found]
                row(f"{n}{within}", number, correlation, *cells, f"{100 * stated:.0f}", percent(at))


def gate_cell(
    rng: np.random.Generator,
    draws: int,
    n: int,
    documents: npt.NDArray[np.int64] | None,
    loss: float,
    number: int,
    correlation: float,
) -> tuple[float, float]:
    """Return the share of candidates refused that are worse by `loss`, and the loss it states."""
    refused, stated = 0, []
    for _ in range(draws):
        own, served = metrics_of(rng, [0.8 - loss, 0.8], correlation, n, documents, number)
        metrics, reasons = compare_scores(
            own, served, METRICS[:number], Gate(), groups_of(documents), spent(1)
        )
        refused += any(m.outcome in REFUSED for m in metrics.values())
        stated += stated_losses(reasons)
    return refused / draws, float(np.mean(stated)) if stated else 1.0


def stated_losses(reasons: Sequence[str]) -> list[float]:
    return [float(x) for x in re.findall(r"show a loss of ([\d.]+) in 9", " ".join(reasons))]


def ratchet(draws: int) -> None:
    """Print what is lost in 1,000 nights of slightly worse candidates, and false refusals."""
    print("\n## 1,000 nights\n")
    histories = max(5, draws // 20)
    heading(
        "questions",
        "margin",
        "lost: mean",
        "highest",
        "mean in margins",
        "above 2 margins",
        f"without a reference ({NIGHTS // 10} nights)",
        "false refusals",
    )
    for n, a_document in ((71, 0), (200, 0), (400, 0), (200, A_DOCUMENT), (400, A_DOCUMENT)):
        documents = in_documents(n, a_document) if a_document else None
        rng = np.random.default_rng(n + a_document)
        margin = float(np.mean([margin_of(rng, n, documents) for _ in range(50)]))
        lost = [history(rng, n, documents, NIGHTS) for _ in range(histories)]
        before = [
            history(rng, n, documents, NIGHTS // 10, False) for _ in range(max(2, histories // 4))
        ]
        false = [false_refusal(rng, n, documents) for _ in range(3 * histories)]
        of = f" of {n // a_document} documents" if a_document else ""
        own, *figures = (
            f"{100 * x:.1f} points" for x in (margin, np.mean(lost), np.max(lost), np.mean(before))
        )
        above = percent(float(np.mean(np.array(lost) > 2 * margin)))
        in_margins = f"{np.mean(lost) / margin:.1f}"
        row(
            f"{n}{of}",
            own,
            *figures[:2],
            in_margins,
            above,
            figures[2],
            percent(float(np.mean(false))),
        )


def margin_of(rng: np.random.Generator, n: int, documents: npt.NDArray[np.int64] | None) -> float:
    """Return `gate.margin`, or the loss that the gate says it would see if that is larger."""
    common, groups = difficulty(rng, (n,), documents), groups_of(documents)
    own, served = (night(rng, common, 0.9, documents) for _ in range(2))
    _, reasons = compare_scores(own, served, METRICS[:1], Gate(), groups, spent(1))
    return max(Gate().margin, *stated_losses(reasons))


def night(
    rng: np.random.Generator, common: Answers, p: float, documents: npt.NDArray[np.int64] | None
) -> Scores:
    shared = np.sqrt(latent_correlation(0.9, 0.9))
    own = difficulty(rng, common.shape, documents)
    hard = shared * common + np.sqrt(1 - shared**2) * own
    return {METRICS[0]: by_id(hard < ndtri(p))}


def history(
    rng: np.random.Generator,
    n: int,
    documents: npt.NDArray[np.int64] | None,
    nights: int,
    with_reference: bool = True,
) -> float:
    """Return what is truly lost: each candidate is one point worse than what is served."""
    common, groups, p = difficulty(rng, (n,), documents), groups_of(documents), 0.9
    served = first = night(rng, common, p, documents)
    reference = new_reference("release-000001", 1)
    for number in range(1, nights + 1):
        own = night(rng, common, max(0.01, p - 0.01), documents)
        drift = compare_with_reference(reference, own, first, METRICS[:1], groups, number, 0.02)
        if with_reference and drift.refused and reference.drifted:
            continue
        metrics, _ = compare_scores(own, served, METRICS[:1], Gate(), groups, spent(number))
        passed = not any(m.outcome in REFUSED for m in metrics.values())
        if with_reference and drift.refused:
            reference = replace(reference, drifted=reference.drifted or passed)
        elif passed:
            served, p = own, max(0.01, p - 0.01)
    return 0.9 - p


def false_refusal(
    rng: np.random.Generator, n: int, documents: npt.NDArray[np.int64] | None
) -> bool:
    """Return whether an equal candidate of any night is shown to be worse than the reference."""
    common, groups = difficulty(rng, (n,), documents), groups_of(documents)
    first, reference = night(rng, common, 0.9, documents), new_reference("release-000001", 1)
    return any(
        compare_with_reference(
            reference, night(rng, common, 0.9, documents), first, METRICS[:1], groups, number, 0.02
        ).shown
        for number in range(1, NIGHTS + 1)
    )


SECTIONS: dict[str, Callable[[int], None]] = {
    "best": best,
    "labels": labels,
    "gate": gate,
    "ratchet": ratchet,
}


def main() -> None:
    arguments = options(__doc__, draws=400, only=("all", *SECTIONS))
    for name, section in SECTIONS.items():
        if arguments.only in ("all", name):
            section(arguments.draws)


if __name__ == "__main__":
    main()
