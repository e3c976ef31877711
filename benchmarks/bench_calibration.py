"""How well confidences match the chance of an answer, on questions outside the fit.

    python -m benchmarks.bench_calibration [--data FOLDER] [--sets NAME ...] [--work FOLDER]

Each question is asked of the default configuration with and without its gold documents. A
calibration is fitted to the questions of half of the documents and tested on the others, over many
halves. The output has two AUCs: for questions with and without their gold documents, and for
questions whose passages hold the answer. It also has the share of wrong "nothing answers", where
`PROMISED` was promised, and the calibration error. `default` is the calibration of a release with
too few questions; it is fitted to half of these documents and tested on the other half.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.bench_citations import built
from benchmarks.shared import working
from rag_pipeline.answering.confidence import auc, fit
from rag_pipeline.calls import CallCounts
from rag_pipeline.config.calibration import DEFAULT
from rag_pipeline.evaluation.calibration import Examples, examples
from rag_pipeline.evaluation.runs import load_queries, load_ranked

SETS = ("sample", "legalbench-rag", "chroma-chunking")
PROMISED = 0.1
_HALVES = 100
_BINS = 5

Floats = npt.NDArray[np.float64]


def report(name: str, found: Examples) -> None:
    """Print what calibrations of half of the documents do on the other half."""
    answers, removed = np.array(found.answers), np.array(found.removed)
    groups, asked = np.array(found.groups), np.array(found.asked)
    documents = np.unique(groups)
    several = len(documents) > 9
    unit = groups if several else np.arange(len(groups)) // 2  # too few documents: by questions
    chance = np.random.default_rng(0)
    told: list[list[float]] = []
    for _ in range(_HALVES):
        units = np.unique(unit)
        first = np.isin(unit, chance.choice(units, len(units) // 2, replace=False))
        made = fit(found.rows[first], answers[first].tolist(), asked[first].tolist(), PROMISED)
        if made is None:
            continue
        own = made.chances(found.rows[~first])
        held = answers[~first]
        told.append(
            [
                auc(own[~removed[~first]], own[removed[~first]]),
                auc(own[held], own[~held]),
                float((own[held] < made.least).mean()),
                float((own[~held] < made.least).mean()),
                _away(own, held),
            ]
        )
    split = "documents" if several else "questions"
    sys.stdout.write(f"{name}: {len(answers) // 2} questions, {len(documents)} documents\n")
    if told:
        mean, spread = np.mean(told, axis=0), np.std(told, axis=0)
        sys.stdout.write(
            f"  fitted, {len(told)} halves by {split}: AUC with/without gold documents "
            f"{mean[0]:.3f} ±{spread[0]:.3f}, answered/not {mean[1]:.3f} ±{spread[1]:.3f}; "
            f"promised {100 * PROMISED:.0f} %, wrongly nothing {100 * mean[2]:.1f} "
            f"±{100 * spread[2]:.1f} %, rightly nothing {100 * mean[3]:.1f} %; off by "
            f"{100 * mean[4]:.1f} points\n"
        )
    other = np.array([zlib.crc32(f"{g}".encode()) % 2 == 1 for g in groups])
    for shown, rows in (("other half", other), ("all", np.ones(len(groups), bool))):
        own, held, gone = DEFAULT.chances(found.rows[rows]), answers[rows], removed[rows]
        if not held.any():
            continue
        sys.stdout.write(
            f"  default, {shown}: AUC {auc(own[~gone], own[gone]):.3f}, answered/not "
            f"{auc(own[held], own[~held]):.3f}; wrongly nothing "
            f"{100 * (own[held] < DEFAULT.least).mean():.1f} %, rightly nothing "
            f"{100 * (own[~held] < DEFAULT.least).mean():.1f} %; off by "
            f"{100 * _away(own, held):.1f} points\n"
        )
    sys.stdout.flush()


def _away(chances: Floats, held: npt.NDArray[np.bool_]) -> float:
    """Return how far chances are from shares (ECE over bins of equal counts).

    Naeini, Cooper & Hauskrecht, AAAI 2015.
    """
    parts = np.array_split(np.argsort(chances), _BINS)
    away = [abs(chances[part].mean() - held[part].mean()) * len(part) for part in parts]
    return float(sum(away) / len(chances))


def measured(name: str, data: Path, work: Path) -> Examples:
    """Build a set and return the evidence of all of its questions."""
    corpus = built(name, data, work)
    workspace = corpus.workspace
    configuration = workspace.config.configuration("default")
    queries = load_queries(workspace)
    ranked = load_ranked(workspace, "default")
    made = examples(workspace, configuration, queries, ranked, CallCounts(), len(queries))
    assert made is not None
    return made


def main() -> None:
    with working(__doc__, SETS) as arguments:
        for name in arguments.sets:
            report(name, measured(name, arguments.data, arguments.work / name))


if __name__ == "__main__":
    main()
