"""Scores of every configuration -> one table, best first, with verdicts on the differences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag_pipeline.calls.costs import Totals, totals_by
from rag_pipeline.config import fingerprint
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.comparison import (
    Reference,
    baseline,
    compare_all,
    evaluated_scores,
    shown_metrics,
)
from rag_pipeline.evaluation.retrieval_metrics import METRICS
from rag_pipeline.evaluation.runs import QUERIES_FILE, run_file
from rag_pipeline.evaluation.scores import Scores, check_metric_names, scores_digests
from rag_pipeline.evaluation.summary import Summary, summarize_all
from rag_pipeline.workspace import Workspace

LEADERBOARD_FILE = "evaluation/leaderboard.json"
_VERSION = 2
_UNMEASURED = asdict(Summary(None, 0, 0, None, None))


def leaderboard_digest(workspace: Workspace) -> str:
    """Hash the scores that a leaderboard shows."""
    config = workspace.config
    names = list(config.all_configurations)
    digests = [scores_digests(workspace, name) for name in names]
    unanswered = workspace.store.read_note(QUERIES_FILE).get("problems", [])
    return fingerprint(
        "leaderboard",
        _VERSION,
        config.serve_metric,
        config.baseline_name,
        config.gate.metrics,
        names,
        digests,
        unanswered,
    )


def leaderboard_is_current(workspace: Workspace) -> bool:
    """Return whether the leaderboard shows the scores as they are."""
    written = workspace.store.read_json(LEADERBOARD_FILE) or {}
    return bool(written.get("digest") == leaderboard_digest(workspace))


def update_leaderboard(workspace: Workspace, released: Reference | None = None) -> dict[str, Any]:
    """Summarize every evaluated configuration, best first by the serving metric.

    Each is compared with the baseline, and with what is released now if anything is.
    Raises ConfigError for a serving or gate metric that nothing measures.
    """
    config = workspace.config
    scores = evaluated_scores(workspace)
    check_metric_names(config, (m for own in scores.values() for m in own))
    rows = []
    costs = totals_by(workspace.ledger.charges(), "configuration", config)
    for name, own in scores.items():
        note = workspace.store.read_note(run_file(name))
        if not note:
            continue
        summaries = summarize_all(_by_query(own))
        names = dict.fromkeys((*METRICS, *own))
        rows.append(
            {
                "name": name,
                **config.configuration(name).model_dump(exclude={"name"}),
                "chunks": note["pinned"]["rows"],
                "seconds": note["seconds"],
                "calls": note["calls"],
                "costs": asdict(costs.get(name, Totals())),
                "latency_ms": note.get("latency_ms"),
                "metrics": {m: _plain(summaries.get(m)) for m in names},
            }
        )
    metric = config.serve_metric
    rows.sort(key=lambda row: best_first(mean_of(row, metric)))
    board = {
        "digest": leaderboard_digest(workspace),
        "corpus": config.corpus,
        "sorted_by": metric,
        "queries_left_out": len(workspace.store.read_note(QUERIES_FILE).get("problems", [])),
        "configurations": rows,
    }
    board = with_verdicts(workspace, board, released)
    workspace.store.write_json(LEADERBOARD_FILE, board)
    return board


def with_verdicts(
    workspace: Workspace,
    board: Mapping[str, Any],
    released: Reference | None,
    also: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a leaderboard whose rows are compared with the baseline and what is released now.

    `compared_with` names both; a row's `against` holds, for each, the comparison by metric (none
    with itself). `also` names metrics to compare besides the ones shown.
    """
    names = [row["name"] for row in board["configurations"]]
    scores = {n: s for n, s in evaluated_scores(workspace).items() if n in names}
    metrics = shown_metrics(workspace.config, also)
    references: dict[str, Reference | None] = {"baseline": baseline(workspace)}
    references["released"] = released
    against: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in names}
    for kind, reference in references.items():
        found = compare_all(scores, reference, metrics) if reference else {}
        for name in names:
            against[name][kind] = {
                metric: asdict(family[name]) for metric, family in found.items() if name in family
            }
    return {
        **board,
        "compared_with": {
            kind: reference and {"label": reference.label, "name": reference.configuration}
            for kind, reference in references.items()
        },
        "configurations": [
            {**row, "against": against[row["name"]]} for row in board["configurations"]
        ],
    }


def best_first(mean: float | None) -> tuple[bool, float]:
    """Return the key that sorts means from high to low and unmeasured ones last."""
    return mean is None, -(mean or 0.0)


def mean_of(row: Mapping[str, Any], metric: str) -> float | None:
    """Return a row's mean of a metric, None where it is not measured."""
    mean: float | None = row["metrics"].get(metric, _UNMEASURED)["mean"]
    return mean


def load_leaderboard(workspace: Workspace) -> dict[str, Any]:
    """Return the last leaderboard; raise StoreError when there is none."""
    written: dict[str, Any] | None = workspace.store.read_json(LEADERBOARD_FILE)
    if written is None:
        raise StoreError(
            f"{workspace.config.corpus}: nothing has been evaluated yet; run: rag run "
            f"{workspace.config.where}"
        )
    return written


def _by_query(scores: Scores) -> list[dict[str, float | None]]:
    ids = dict.fromkeys(query_id for values in scores.values() for query_id in values)
    return [{m: values.get(query_id) for m, values in scores.items()} for query_id in ids]


def _plain(summary: Summary | None) -> dict[str, Any]:
    return asdict(summary) if summary else dict(_UNMEASURED)
