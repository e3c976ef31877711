"""The release gate: compare a candidate with the served release, query by query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from rag_pipeline.config import Gate
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.comparison import (
    Groups,
    Reference,
    compare,
    gains_of,
    groups_of,
    measured_metrics,
    pairs,
)
from rag_pipeline.evaluation.results import QUERIES, RUN
from rag_pipeline.evaluation.runs import count_synthetic, load_groups, load_queries
from rag_pipeline.evaluation.scores import (
    Scores,
    check_metric_names,
    columns_of,
    direction,
    is_share,
    read_scores,
)
from rag_pipeline.evaluation.significance import Comparison, loss_p_values
from rag_pipeline.release.drift import (
    Drift,
    compare_with_reference,
    keep_reference,
    new_reference,
    reference_id,
    reference_of,
)
from rag_pipeline.release.manifest import made, names
from rag_pipeline.release.margins import REFUSED, MetricComparison, Outcome, decide_metric, spent
from rag_pipeline.workspace import Workspace

_REFUSED_BUILDS = "gate/refused.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateMetric:
    """The means of the candidate and the release in one gate metric, over the common queries."""

    candidate: float | None
    released: float | None
    comparison: Comparison
    outcome: Outcome
    loss: float | None = None
    """The probability that an equally good candidate has such a loss in any gate metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The gate's decision about a candidate, with reasons.

    `against` names the compared release, or is None before the first release. `queries` counts the
    candidate's queries. `common` counts the queries for which the release also has scores.
    """

    candidate: str
    allowed: bool
    reasons: tuple[str, ...]
    against: str | None = None
    queries: int = 0
    common: int = 0
    metrics: Mapping[str, GateMetric] | None = None
    passed: bool = True
    """Whether the comparison with the served release allows the candidate."""
    drift: Drift | None = None
    """The comparison with the reference release."""


def decide(workspace: Workspace, candidate: str, served: Reference | None) -> Decision:
    """Refuse a candidate that is or looks worse than the served release in a gate metric.

    `decide_metric` has the rules. If the release has values only for whole documents,
    `DOCUMENT_METRIC` replaces the gate metrics. If only the candidate lacks a value, the worst
    value counts. A candidate without any comparable metric is refused if the release has measured
    values. Raise ConfigError for a metric that no configuration measures.
    """
    own = read_scores(workspace, candidate)
    check_metric_names(workspace.config, own)
    gate = workspace.config.gate
    allowed = partial(Decision, candidate=candidate, allowed=True)
    if served is None:
        return allowed(reasons=("nothing is released yet",))
    against = f"{served.label} ({served.configuration})"
    if not gate.metrics:
        reason = f"gate.metrics is empty: not compared with {against}"
        return allowed(reasons=(reason,), against=against)
    ids = _query_ids(own)
    common = ids.keys() & _query_ids(served.scores).keys()
    wanted = measured_metrics(gate.metrics, [served.scores])
    if not (measured := common & _measured(served.scores, wanted)):
        problem = _not_comparable(workspace, own, served, wanted)
        reason = problem or f"{against} has no value in a gate metric, so nothing is compared"
        decision = allowed(reasons=(reason,), against=against, queries=len(ids), metrics={})
        return replace(decision, allowed=not problem, common=len(common), passed=not problem)
    number, groups = comparison_number(workspace, candidate), load_groups(workspace)
    synthetic = count_synthetic(workspace, common)
    metrics, reasons = compare_scores(
        own, served.scores, wanted, gate, groups, spent(number), synthetic
    )
    passed = not any(m.outcome in REFUSED for m in metrics.values())
    reference = reference_of(workspace, served.label, number)
    is_served = reference.release_id == served.label
    scores = served.scores if is_served else kept_scores(workspace, reference.release_id)
    shared = len(ids.keys() & _measured(scores, wanted))
    if not shared and gate.reference:
        problem = f"the store has no scores of {gate.reference} for the present queries"
        raise ConfigError(f"{workspace.config.where}: gate.reference: {problem}")
    if 2 * shared < len(measured) and not gate.reference:
        reference, scores = new_reference(served.label, number), served.scores
    worst = _worst_case(own, scores, wanted)
    drift = compare_with_reference(reference, worst, scores, wanted, groups, number, gate.margin)
    if passed and (drift.refused or not is_served):
        reasons.append(drift.reason)
    return Decision(
        candidate=candidate,
        allowed=passed and not drift.refused,
        reasons=tuple(reasons),
        against=against,
        queries=len(ids),
        common=len(common),
        metrics=metrics,
        passed=passed,
        drift=drift,
    )


def _not_comparable(
    workspace: Workspace, own: Scores, served: Reference, metrics: Sequence[str]
) -> str:
    """Return the reason to refuse a candidate that can't be compared, or "" to allow it."""
    gate, where = workspace.config.gate, workspace.config.where
    way_out = f"or set gate.metrics to [] in {where} for one release"
    release = f"refused: {served.label} ({served.configuration})"
    kept = workspace.store.read_parquet(kept_file(served.label))
    if kept is None or _measured(columns_of(kept), metrics):
        common = _query_ids(own).keys() & _query_ids(served.scores).keys()
        remedy = "evaluate again" if common else "restore the ids and texts of its questions"
        return f"{release} has no value for the present questions: {remedy}, {way_out}"
    judged = workspace.config.evaluation.judge is not None
    queries = load_queries(workspace)
    expected = {q.query_id for q in queries if judged or q.gold_spans or q.gold_documents}
    lost = expected - _measured(own, measured_metrics(gate.metrics, [own]))
    if len(lost) <= gate.maximum_missing * len(expected):
        return ""
    lacking = f"the candidate has none for {len(lost)} of {len(expected)} questions"
    return f"{release} has no value in a gate metric, and {lacking}: evaluate again, {way_out}"


def _measured(scores: Scores, metrics: Sequence[str]) -> set[str]:
    """Return the ids of the queries that have a value in any of the metrics."""
    values = (scores.get(metric, {}) for metric in metrics)
    return {q for of_query in values for q, value in of_query.items() if value is not None}


def compare_scores(
    own: Scores,
    served: Scores,
    wanted: Sequence[str],
    gate: Gate,
    groups: Groups,
    alpha: float,
    synthetic: int = 0,
) -> tuple[dict[str, GateMetric], list[str]]:
    """Return the comparisons by metric, and a sentence for each metric.

    `alpha` is the allowed error (0 to 1). `synthetic` counts the synthetic common queries.
    """
    measured, own = own, _worst_case(own, served, wanted)
    compared = compare(own, served, wanted, alpha, groups)
    gains = {m: of_query for m in compared if (of_query := gains_of(own, served, m))}
    losses = loss_p_values(gains, groups)
    metrics, reasons = {}, []
    for metric, comparison in compared.items():
        found = MetricComparison(
            comparison=comparison,
            pairs=pairs(own, served, metric),
            groups=groups_of(own, served, metric, groups),
            lower_is_better=direction(metric) == "lower",
            loss=losses.get(metric),
            metrics=len(gains),
            missing=len(_measured(own, [metric]) - _measured(measured, [metric])),
            synthetic=synthetic,
        )
        outcome, sentence = decide_metric(found, gate, alpha)
        metrics[metric] = _gate_metric(found, outcome)
        reasons.append(_reason(metric, metrics[metric], sentence))
    return metrics, reasons


def comparison_number(workspace: Workspace, candidate: str) -> int:
    """Return the number (from 1) of the comparison of a candidate with a release.

    Each released or refused build counts once. So a comparison that is repeated every night can't
    force a verdict.
    """
    digest = RUN.note(workspace, candidate).get("digest")
    refused = [build for build in _refused(workspace) if build != digest]
    return max(1, made(workspace) + len(refused))


def keep_decision(workspace: Workspace, decision: Decision, released: str | None = None) -> None:
    """Record a decision. `released` is the id of the new release, or None after a refusal."""
    digest = RUN.note(workspace, decision.candidate).get("digest")
    refused = _refused(workspace)
    if released is None and digest is not None and digest not in refused:
        workspace.store.write_json(_REFUSED_BUILDS, {"refused": [*refused, digest]})
    before, number = reference_id(workspace), comparison_number(workspace, "")
    keep_reference(workspace, decision.drift, decision.passed, released, number)
    if before and before != reference_id(workspace) and before not in names(workspace):
        workspace.store.remove_file(kept_file(before))


def _refused(workspace: Workspace) -> list[str]:
    return list((workspace.store.read_json(_REFUSED_BUILDS) or {}).get("refused", []))


def _worst_case(own: Scores, other: Scores, metrics: Sequence[str]) -> Scores:
    """Return the candidate's values. The worst value replaces a value that only `other` has."""
    ids = _query_ids(own)
    filled = {}
    for metric in metrics:
        mine, theirs = own.get(metric, {}), other.get(metric, {})
        is_lower = direction(metric) == "lower"
        known = [float(is_lower)] if is_share(metric) else [*mine.values(), *theirs.values()]
        ends = [value for value in known if value is not None]
        worst = (max if is_lower else min)(ends, default=None)
        filled[metric] = {
            q: worst if mine.get(q) is None and theirs.get(q) is not None else mine.get(q)
            for q in ids
        }
    return filled


def keep_scores(workspace: Workspace, release_id: str, configuration: str) -> None:
    """Write a release's scores with the texts of their queries, for later comparisons."""
    scores = read_scores(workspace, configuration)
    texts = _query_texts(workspace)
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
    """Return a release's scores for unchanged queries, or {} if no scores are stored."""
    table = workspace.store.read_parquet(kept_file(release_id))
    if table is None:
        return {}
    texts = _query_texts(workspace)
    asked = zip(
        table.column("query_id").to_pylist(), table.column("query").to_pylist(), strict=True
    )
    same = [texts.get(query_id) == text for query_id, text in asked]
    return columns_of(table.filter(pa.array(same, pa.bool_())))


def kept_file(release_id: str) -> str:
    """Return the path of a release's scores in the store."""
    return f"released_scores/{release_id}.parquet"


def _query_texts(workspace: Workspace) -> dict[str, str]:
    return {row["query_id"]: row["query"] for row in QUERIES.rows(workspace)}


def _query_ids(scores: Scores) -> dict[str, None]:
    return dict.fromkeys(query_id for values in scores.values() for query_id in values)


def _gate_metric(found: MetricComparison, outcome: Outcome) -> GateMetric:
    complete = [(a, b) for a, b in found.pairs if a is not None and b is not None]
    mine, theirs = None, None
    if complete:
        mine, theirs = (sum(side) / len(complete) for side in zip(*complete, strict=True))
    return GateMetric(
        candidate=mine,
        released=theirs,
        comparison=found.comparison,
        outcome=outcome,
        loss=found.loss if complete else None,
    )


def _reason(name: str, metric: GateMetric, sentence: str) -> str:
    found = metric.comparison
    if metric.candidate is None or metric.released is None:
        return f"{name}: {sentence}"
    change = f"{metric.released:.4f} -> {metric.candidate:.4f}"
    interval = "" if found.low is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
    return f"{name}: {sentence} ({change}{interval})"
