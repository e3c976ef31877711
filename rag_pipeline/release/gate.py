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
from rag_pipeline.evaluation.quality import load_labels
from rag_pipeline.evaluation.results import JUDGED, QUERIES, RUN
from rag_pipeline.evaluation.retrieval_metrics import DOCUMENT_METRIC
from rag_pipeline.evaluation.runs import count_synthetic, load_groups
from rag_pipeline.evaluation.scores import (
    Scores,
    all_metrics,
    asset_of,
    check_metric_names,
    columns_of,
    direction,
    gate_metrics,
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

    `decide_metric` has the rules. If the release has most values only for whole documents,
    `DOCUMENT_METRIC` replaces the gate metrics or joins them. If only the candidate lacks a value,
    the worst value counts. A candidate without any comparable metric is refused if the release has
    measured values. Every candidate, also the first, is refused if too many judgements failed.
    Raise ConfigError for a metric that no configuration measures.
    """
    own = read_scores(workspace, candidate)
    check_metric_names(workspace.config, own)
    decision = _compare(workspace, candidate, own, served)
    if not decision.allowed or not (lost := lacking(workspace, candidate)):
        return decision
    return replace(decision, allowed=False, passed=False, reasons=(*decision.reasons, *lost))


def lacking(workspace: Workspace, candidate: str) -> list[str]:
    """Return a sentence for each gate metric with too many values missing by failed judgements.

    A run with many failed searches fails, so these do not count.
    """
    config, own, found = workspace.config, read_scores(workspace, candidate), []
    for metric in gate_metrics(config):
        if results := JUDGED.get(asset_of(metric)):
            note = results.note(workspace, candidate)
            lost, of = note.get("missing", 0), note.get("annotated", note.get("queries", 0))
        else:
            known = all_metrics().get(metric)
            is_judged = config.evaluation.judge and getattr(known, "needs", None) == "labels"
            labels = load_labels(workspace, candidate) if is_judged else {}
            values, depth = own.get(metric, {}), getattr(known, "depth", None)
            failed = [q for q, row in labels.items() if None in row[:depth]]
            lost, of = sum(values.get(q) is None for q in failed), len(labels)
        if lost > config.gate.maximum_missing * of:
            found.append(
                f"{metric}: refused: the candidate has none for {lost} of {of} questions: evaluate "
                f"again, or set gate.metrics to [] for one release (see gate.maximum_missing)"
            )
    return found


def _compare(workspace: Workspace, name: str, own: Scores, served: Reference | None) -> Decision:
    gate = workspace.config.gate
    if served is None:
        return Decision(candidate=name, allowed=True, reasons=("nothing is released yet",))
    against = f"{served.label} ({served.configuration})"
    decision = partial(Decision, candidate=name, against=against)
    if not gate.metrics:
        reason = f"gate.metrics is empty: not compared with {against}"
        return decision(allowed=True, reasons=(reason,))
    ids = _query_ids(own)
    common = ids.keys() & _query_ids(served.scores).keys()
    decision = partial(decision, queries=len(ids), common=len(common))
    wanted = measured_metrics(gate_metrics(workspace.config), [served.scores])
    if 2 * len(_measured(served.scores, wanted)) < len(_measured(served.scores, [DOCUMENT_METRIC])):
        wanted.append(DOCUMENT_METRIC)
    if not (measured := common & _measured(served.scores, wanted)):
        kept = workspace.store.read_parquet(kept_file(served.label))
        passed = kept is not None and not _measured(columns_of(kept), wanted)
        remedy = "evaluate again" if common else "restore the texts of its questions"
        reason = f"{against} has no value in a gate metric, so nothing is compared"
        if not passed:
            where = f"or set gate.metrics to [] in {workspace.config.where} for one release"
            reason = f"refused: {against} has no value for the present questions: {remedy}, {where}"
        return decision(allowed=passed, passed=passed, reasons=(reason,), metrics={})
    number, groups = comparison_number(workspace, name), load_groups(workspace)
    alpha, synthetic = spent(number), count_synthetic(workspace, common)
    found, reasons = compare_scores(own, served.scores, wanted, gate, groups, alpha, synthetic)
    passed = not any(m.outcome in REFUSED for m in found.values())
    reference = reference_of(workspace, served.label, number)
    is_served = reference.release_id == served.label
    scores = served.scores if is_served else kept_scores(workspace, reference.release_id)
    shared = len(ids.keys() & _measured(scores, wanted))
    if shared < min(3, len(measured)) and gate.reference:  # fewer show no loss
        problem = f"{shared or 'no'} scores of {gate.reference} for the present queries"
        raise ConfigError(f"{workspace.config.where}: gate.reference: the store has {problem}")
    if 2 * shared < len(measured) and not gate.reference:
        reference, scores = new_reference(served.label, number), served.scores
    worst = _worst_case(own, scores, wanted)
    drift = compare_with_reference(reference, worst, scores, wanted, groups, number, gate.margin)
    if passed and (drift.refused or not is_served):
        reasons.append(drift.reason)
    allowed, told = passed and not drift.refused, tuple(reasons)
    return decision(allowed=allowed, passed=passed, reasons=told, metrics=found, drift=drift)


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
            released=len(_measured(served, [metric])),
            synthetic=synthetic,
        )
        outcome, sentence = decide_metric(found, gate, alpha)
        metrics[metric] = _gate_metric(found, outcome)
        reasons.append(_reason(metric, metrics[metric], sentence))
    return metrics, reasons


def compare_with_itself(workspace: Workspace, name: str) -> list[str]:
    """Return the sentences of the gate about a build with the same values as this build."""
    own, gate = read_scores(workspace, name), workspace.config.gate
    wanted = measured_metrics(gate_metrics(workspace.config), [own]) if gate.metrics else []
    alpha = spent(comparison_number(workspace, name))
    return compare_scores(own, own, wanted, gate, load_groups(workspace), alpha)[1]


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


def kept_scores(workspace: Workspace, release_id: str, with_removed: bool = False) -> Scores:
    """Return a release's scores by the present query ids, or {} if no scores are stored.

    A query with another id but the same text is the same query. `with_removed` adds the scores for
    removed and changed queries, with ids of no present query.
    """
    table = workspace.store.read_parquet(kept_file(release_id))
    if table is None:
        return {}
    texts = _query_texts(workspace)
    asked = {
        row["query_id"]: row["query"] for row in table.select(["query_id", "query"]).to_pylist()
    }
    same = {query_id for query_id, text in asked.items() if texts.get(query_id) == text}
    by_text = {text: query_id for query_id, text in texts.items() if query_id not in same}
    ids = [q if q in same else by_text.get(text, f"removed: {q}") for q, text in asked.items()]
    table = table.set_column(0, "query_id", pa.array(ids, pa.string()))
    if not with_removed:
        table = table.filter(pa.array([query_id in texts for query_id in ids], pa.bool_()))
    return columns_of(table)


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
    loss = found.loss if complete else None
    return GateMetric(
        candidate=mine, released=theirs, comparison=found.comparison, outcome=outcome, loss=loss
    )


def _reason(name: str, metric: GateMetric, sentence: str) -> str:
    found = metric.comparison
    if metric.candidate is None or metric.released is None:
        return f"{name}: {sentence}"
    change = f"{metric.released:.4f} -> {metric.candidate:.4f}"
    interval = "" if found.low is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
    return f"{name}: {sentence} ({change}{interval})"
