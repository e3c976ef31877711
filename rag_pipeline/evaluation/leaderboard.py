"""Scores of every configuration -> one table, best first, with verdicts on the differences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.config import fingerprint
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.best_of_many import best_of_many
from rag_pipeline.evaluation.board import (
    Against,
    Board,
    BoardRow,
    ComparedWith,
    best_first,
    read_board,
)
from rag_pipeline.evaluation.comparison import (
    Reference,
    baseline,
    compare_all,
    evaluated_scores,
    measured_metrics,
    shown_metrics,
)
from rag_pipeline.evaluation.intervals import few_groups
from rag_pipeline.evaluation.results import QUERIES, RUN
from rag_pipeline.evaluation.runs import count_left_out, count_synthetic, load_groups, load_queries
from rag_pipeline.evaluation.scores import (
    check_metric_names,
    ranking_metrics,
    scores_digests,
    summarize_scores,
)
from rag_pipeline.evaluation.summary import UNMEASURED
from rag_pipeline.workspace import Workspace

LEADERBOARD_FILE = "evaluation/leaderboard.json"
_VERSION = 4


def leaderboard_digest(workspace: Workspace) -> str:
    """Hash the scores that a leaderboard shows."""
    config = workspace.config
    names = list(config.all_configurations)
    digests = [scores_digests(workspace, name) for name in names]
    unanswered = QUERIES.note(workspace).get("problems", [])
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


def update_leaderboard(
    workspace: Workspace,
    released: Reference | None = None,
    costs: Mapping[str, Totals] | None = None,
) -> Board:
    """Summarize every evaluated configuration, best first by the serving metric.

    Each is compared with the baseline, and with what is released now if anything is; `costs` holds
    what the calls of each cost.
    Raises ConfigError for a serving or gate metric that nothing measures.
    """
    config = workspace.config
    scores = evaluated_scores(workspace)
    check_metric_names(config, (m for own in scores.values() for m in own))
    rows = []
    groups = load_groups(workspace)
    for name, own in scores.items():
        note = RUN.note(workspace, name)
        if not note:
            continue
        summaries = summarize_scores(own, groups)
        names = dict.fromkeys((*(m.name for m in ranking_metrics()), *own))
        rows.append(
            BoardRow(
                **config.configuration(name).model_dump(),
                chunks=note["pinned"]["rows"],
                seconds=note["seconds"],
                calls=CallCounts(**note["calls"]),
                costs=(costs or {}).get(name, Totals()),
                latency_ms=note.get("latency_ms"),
                usd_per_query=note.get("usd_per_query"),
                metrics={m: summaries.get(m, UNMEASURED) for m in names},
            )
        )
    (sorted_by,) = measured_metrics([config.serve_metric], scores.values())
    asked = [query.query_id for query in load_queries(workspace)]
    board = Board(
        digest=leaderboard_digest(workspace),
        corpus=config.corpus,
        sorted_by=sorted_by,
        queries_left_out=count_left_out(workspace),
        configurations=best_first(rows, sorted_by),
        queries=len(asked),
        synthetic=count_synthetic(workspace),
        few_groups=few_groups([groups.get(q, q) for q in asked]),
        chosen=best_of_many(
            sorted_by, {row.name: scores[row.name].get(sorted_by, {}) for row in rows}, groups
        ),
    )
    board = with_verdicts(workspace, board, released)
    workspace.store.write_json(LEADERBOARD_FILE, board.record())
    return board


def with_verdicts(
    workspace: Workspace, board: Board, released: Reference | None, also: Sequence[str] = ()
) -> Board:
    """Return a leaderboard whose rows are compared with the baseline and what is released now.

    A row is not compared with itself. `also` names metrics to compare besides the ones shown.
    """
    names = board.names()
    scores = {n: s for n, s in evaluated_scores(workspace).items() if n in names}
    shown = shown_metrics(workspace.config, also)
    metrics = [m for m in shown if any(m in own for own in scores.values())]
    references = {"baseline": baseline(workspace), "released": released}
    groups = load_groups(workspace)
    found = {
        kind: compare_all(scores, reference, metrics, groups) if reference else {}
        for kind, reference in references.items()
    }

    def against(name: str) -> Against:
        return {
            kind: {metric: family[name] for metric, family in by.items() if name in family}
            for kind, by in found.items()
        }

    return replace(
        board,
        compared_with={
            kind: ComparedWith(reference.label, reference.configuration) if reference else None
            for kind, reference in references.items()
        },
        configurations=tuple(replace(r, against=against(r.name)) for r in board.configurations),
    )


def load_leaderboard(workspace: Workspace) -> Board:
    """Return the last leaderboard; raise StoreError when there is none."""
    written = workspace.store.read_json(LEADERBOARD_FILE)
    if written is None:
        raise StoreError(
            f"{workspace.config.corpus}: nothing has been evaluated yet; run: rag run "
            f"{workspace.config.where}"
        )
    return read_board(written, workspace.store.address(LEADERBOARD_FILE))
