"""The release gate: may a candidate replace what is served, judged by paired comparison?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rag_pipeline.evaluation.comparison import (
    Groups,
    Reference,
    compare,
    groups_of,
    measured_metrics,
    pairs,
)
from rag_pipeline.evaluation.results import QUERIES, RUN
from rag_pipeline.evaluation.runs import count_synthetic, load_groups
from rag_pipeline.evaluation.scores import (
    Scores,
    check_metric_names,
    columns_of,
    direction,
    read_scores,
)
from rag_pipeline.evaluation.significance import Comparison, loss_p_values
from rag_pipeline.release.manifest import names
from rag_pipeline.release.margins import REFUSED, Look, MarginOutcome, judge_metric, spent
from rag_pipeline.workspace import Workspace

_LOOKS = "gate/looks.json"


@dataclass(frozen=True, slots=True)
class GateMetric:
    """One metric of the gate: both means and their comparison, over the common queries.

    `outcome` is what was decided, `loss` how often an equal candidate looks as bad in any metric.
    """

    candidate: float | None
    released: float | None
    comparison: Comparison
    outcome: MarginOutcome = "undecided"
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a candidate may be released, and why (not).

    `against` says what it was compared with, None where nothing is released; `queries` counts the
    candidate's queries, `common` those that both were asked.
    """

    candidate: str
    allowed: bool
    reasons: tuple[str, ...]
    against: str | None = None
    queries: int = 0
    common: int = 0
    metrics: Mapping[str, GateMetric] | None = None


def decide(workspace: Workspace, candidate: str, released: Reference | None) -> Decision:
    """Refuse a candidate that is worse than what is released in a gate metric, or looks it.

    Where gold is whole documents, the candidate is held to the metric of documents. See
    `judge_metric` for the decision and its certainty. A metric that neither has can't be held
    against a candidate, but is named. Raises ConfigError for a metric that nothing measures.
    """
    own = read_scores(workspace, candidate)
    check_metric_names(workspace.config, own)
    if released is None:
        return Decision(candidate, True, ("nothing is released yet",))
    wanted = measured_metrics(workspace.config.gate.metrics, [own])
    against = f"{released.label} ({released.configuration})"
    if not workspace.config.gate.metrics:
        reason = f"gate.metrics is empty: not compared with {against}"
        return Decision(candidate, True, (reason,), against)
    ids = _query_ids(own)
    common = len(ids.keys() & _query_ids(released.scores).keys())
    if not common:
        reason = f"no query of today was asked of {against}: nothing to compare"
        return Decision(candidate, True, (reason,), against, len(ids), 0, {})
    alpha = spent(look_number(workspace, candidate))
    synthetic = count_synthetic(workspace, ids.keys() & _query_ids(released.scores).keys())
    looks = _looks(own, released.scores, wanted, load_groups(workspace), alpha, synthetic)
    metrics, reasons = {}, []
    for name, look in looks.items():
        outcome, sentence = judge_metric(look, workspace.config.gate, alpha)
        metrics[name] = _gate_metric(look, outcome)
        reasons.append(_reason(name, metrics[name], sentence))
    allowed = not any(m.outcome in REFUSED for m in metrics.values())
    return Decision(candidate, allowed, tuple(reasons), against, len(ids), common, metrics)


def look_number(workspace: Workspace, candidate: str) -> int:
    """Return which comparison with a release this is, from 1: each candidate's build counts once.

    Builds that were refused count as those that were released do, so that looking every night can't
    drift to a verdict.
    """
    digest = RUN.note(workspace, candidate).get("digest")
    refused = [look for look in _refused(workspace) if look != digest]
    return max(1, len(names(workspace)) + len(refused))


def keep_refusal(workspace: Workspace, candidate: str) -> None:
    """Note that a candidate's build was compared and refused."""
    digest = RUN.note(workspace, candidate).get("digest")
    refused = _refused(workspace)
    if digest is not None and digest not in refused:
        workspace.store.write_json(_LOOKS, {"refused": [*refused, digest]})


def _refused(workspace: Workspace) -> list[str]:
    return list((workspace.store.read_json(_LOOKS) or {}).get("refused", []))


def _looks(
    own: Scores,
    released: Scores,
    wanted: Sequence[str],
    groups: Groups,
    alpha: float,
    synthetic: int = 0,
) -> dict[str, Look]:
    gains: dict[str, dict[str, float]] = {}
    compared = compare(own, released, wanted, alpha, groups)
    for metric in compared:
        sign = -1 if direction(metric) == "lower" else 1
        theirs = released.get(metric, {})
        gains[metric] = {
            q: sign * (mine - other)
            for q, mine in own.get(metric, {}).items()
            if mine is not None and (other := theirs.get(q)) is not None
        }
    losses = loss_p_values({m: g for m, g in gains.items() if g}, groups)
    return {
        metric: Look(
            comparison,
            pairs(_with(own, metric), released, metric),
            groups_of(_with(own, metric), released, metric, groups),
            direction(metric) == "lower",
            losses.get(metric),
            synthetic,
        )
        for metric, comparison in compared.items()
    }


def _with(scores: Scores, metric: str) -> Scores:
    """Return the scores with a metric that they lack altogether as missing on every query."""
    return scores if metric in scores else {**scores, metric: dict.fromkeys(_query_ids(scores))}


def keep_scores(workspace: Workspace, release_id: str, configuration: str) -> None:
    """Keep a release's scores with the questions they are of, for later candidates."""
    scores = read_scores(workspace, configuration)
    texts = _question_texts(workspace)
    ids = [query_id for query_id in _query_ids(scores) if query_id in texts]
    columns = {
        "query_id": pa.array(ids, pa.string()),
        "query": pa.array([texts[query_id] for query_id in ids], pa.string()),
    }
    for metric, values in scores.items():
        columns[metric] = pa.array([values.get(query_id) for query_id in ids], pa.float64())
    note = {"configuration": configuration}
    workspace.store.write_parquet(kept_file(release_id), pa.table(columns), note)


def kept_scores(workspace: Workspace, release_id: str) -> Scores:
    """Return a release's scores on the questions that are asked today in the same words."""
    table = workspace.store.read_parquet(kept_file(release_id))
    if table is None:
        return {}
    texts = _question_texts(workspace)
    asked = zip(
        table.column("query_id").to_pylist(), table.column("query").to_pylist(), strict=True
    )
    same = [texts.get(query_id) == text for query_id, text in asked]
    return columns_of(table.filter(pa.array(same, pa.bool_())))


def kept_file(release_id: str) -> str:
    """Return where the scores kept with a release stand."""
    return f"released_scores/{release_id}.parquet"


def _question_texts(workspace: Workspace) -> dict[str, str]:
    return {row["query_id"]: row["query"] for row in QUERIES.rows(workspace)}


def _query_ids(scores: Scores) -> dict[str, None]:
    """Return the ids of all queries, in their order."""
    return dict.fromkeys(query_id for values in scores.values() for query_id in values)


def _gate_metric(look: Look, outcome: MarginOutcome) -> GateMetric:
    complete = [(a, b) for a, b in look.pairs if a is not None and b is not None]
    if not complete:
        return GateMetric(None, None, look.comparison, outcome)
    mine, theirs = (sum(side) / len(complete) for side in zip(*complete, strict=True))
    return GateMetric(mine, theirs, look.comparison, outcome, look.loss)


def _reason(name: str, metric: GateMetric, sentence: str) -> str:
    found = metric.comparison
    if metric.candidate is None or metric.released is None:
        return f"{name}: {sentence}"
    change = f"{metric.released:.4f} -> {metric.candidate:.4f}"
    interval = "" if found.low is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
    return f"{name}: {sentence} ({change}{interval})"
