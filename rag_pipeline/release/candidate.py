"""Choose the configuration to publish, and find the reasons against publishing it."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from rag_pipeline.config import Configuration, fingerprint
from rag_pipeline.errors import (
    ConfigError,
    NotReleasedError,
    StoreError,
    UnexpectedError,
    blaming,
    counted,
)
from rag_pipeline.evaluation.comparison import (
    Reference,
    best_of,
    evaluated_scores,
    measured_metrics,
)
from rag_pipeline.evaluation.health import Health, find_alerts, measure_health
from rag_pipeline.evaluation.intervals import mean_of_known
from rag_pipeline.evaluation.leaderboard import (
    LEADERBOARD_FILE,
    leaderboard_digest,
    load_leaderboard,
)
from rag_pipeline.evaluation.quality import scores_are_current
from rag_pipeline.evaluation.results import CONTEXT_SCORES, JUDGED, QUERIES, RUN
from rag_pipeline.evaluation.runs import load_groups, run_is_current
from rag_pipeline.evaluation.scores import Values, asset_of, read_scores
from rag_pipeline.indexing import TABLES, open_partition, plan, plan_lexical
from rag_pipeline.release.checks import INCREMENTAL_CHECKS, CheckResult
from rag_pipeline.release.gate import Decision, compare_with_itself, decide, kept_scores, lacking
from rag_pipeline.release.holds import held_builds, kept_release, present_builds, settings_of
from rag_pipeline.release.manifest import current, current_id, load, read_settings
from rag_pipeline.workspace import Workspace

CHOSEN = "is chosen"
_LISTED_DOCUMENTS = 20
_TIE_BREAKS = ("AnswerPresence@1", "EntityF1", "AnswerPresence@10", "RR@10")
"""The metrics that decide, in this order, if `serve_metric` shows no clear difference."""


def choose(workspace: Workspace) -> tuple[Configuration, list[str]]:
    """Return the configuration that `serve` names, or the best by `serve_metric`, with reasons.

    The first reason explains the choice. The other reasons are notes, such as a list of
    configurations with rolled-back builds. Raise NotReleasedError if no configuration can be
    chosen.
    """
    if held := held_builds(workspace):  # the choice also depends on each present build
        return _choose(workspace, held)
    config, written = workspace.config, workspace.store.read_json(LEADERBOARD_FILE) or {}
    limits = config.serve, config.gate.maximum_missing
    scores = leaderboard_digest(workspace), QUERIES.digest(workspace)
    made_from = fingerprint(written.get("digest"), *scores, *limits)
    if workspace.chosen[0] != made_from:
        workspace.chosen = made_from, _choose(workspace)
    configuration, reasons = workspace.chosen[1]
    return configuration, [*reasons]


def _choose(workspace: Workspace, held: Collection[str] = ()) -> tuple[Configuration, list[str]]:
    config = workspace.config
    evaluated = [row.name for row in load_leaderboard(workspace).configurations]
    if not evaluated:
        raise NotReleasedError(f"{config.corpus}: no configuration has been evaluated yet")
    if config.serve == "best":
        return _choose_best(workspace, evaluated, held)
    if config.serve not in evaluated:
        raise NotReleasedError(f"{config.corpus}: {config.serve} has not been evaluated yet")
    return config.configuration(config.serve), [f"serve: {config.serve}"]


def _choose_best(
    workspace: Workspace, evaluated: Collection[str], held: Collection[str]
) -> tuple[Configuration, list[str]]:
    config = workspace.config
    scores = evaluated_scores(workspace)
    (metric,) = measured_metrics([config.serve_metric], scores.values())
    builds = present_builds(workspace) if held else {}
    rolled_back = [name for name in evaluated if builds.get(name) in held]
    values = {n: scores.get(n, {}).get(metric, {}) for n in evaluated if n not in rolled_back}
    if not values:
        reason = "every evaluated build was rolled back; change the settings and run again"
        raise NotReleasedError(f"{config.corpus}: {reason}")
    back = ", ".join(rolled_back)
    again = "rag rollback serves it again, and rag releases names its release"
    notes = [f"not chosen, because the build was rolled back: {back} ({again})"] if back else []
    common, complete = comparable(values, config.gate.maximum_missing)
    if not common:
        if any(v is not None for own in values.values() for v in own.values()):
            raise NotReleasedError(
                f"{config.corpus}: every configuration lacks {metric} for a share of more than "
                f"{config.gate.maximum_missing:g} of the queries (gate.maximum_missing); evaluate "
                f"again"
            )
        first = next(name for name in config.all_configurations if name in values)
        reason = "the first configuration, because no query has gold"
        return config.configuration(first), [reason, *notes]
    order = [metric, *(m for m in _TIE_BREAKS if m != metric)]
    measured = {
        name: {
            m: {q: own[q] for q in common if q in own}
            for m in order
            if (own := scores[name].get(m))
        }
        for name in config.all_configurations
        if name in complete
    }
    best, used = best_of(measured, order, load_groups(workspace))
    mean = mean_of_known(values[best][q] for q in common) or 0.0
    left_out = len(values) - len(complete)
    queries, configurations = counted(len(common), "query"), counted(len(measured), "configuration")
    measured_in = f"in {metric} ({mean:.4f} over {queries})"
    reason = f"{best} is the best of {configurations} {measured_in}"
    if len(used) != 1 and len(measured) > 1:
        reason = f"none of {configurations} is surely better than {best} {measured_in}"
        if not used:
            reason += ", so the first of the corpus file that may be served is chosen"
        known = [m for m in used if mean_of_known(measured[best].get(m, {}).values()) is not None]
        if len(known) > 1:  # the sum of all means decides among the last ones
            reason += f", so {', '.join(known)} decided together"
    if left_out:
        reason += f"; {left_out} lack it for too many queries"
    return config.configuration(best), [reason, *notes]


def comparable(values: Mapping[str, Values], maximum_missing: float) -> tuple[list[str], list[str]]:
    """Return the queries with values of all comparable configurations, and these configurations.

    A configuration is left out if it lacks the metric for more than a share of `maximum_missing` (0
    to 1) of all measured queries, because the missing queries may be its worst.
    """
    known = {n: {q for q, v in own.items() if v is not None} for n, own in values.items()}
    every = set().union(*known.values())
    complete = [n for n, own in known.items() if len(every - own) <= maximum_missing * len(every)]
    if not every or not complete:
        return [], complete
    return sorted(set.intersection(*(known[n] for n in complete))), complete


def is_current(workspace: Workspace) -> bool:
    """Return whether the served release is the build to choose now."""
    try:
        return current(workspace).digest == candidate_digest(workspace)
    except StoreError:  # nothing is served, or its manifest is unreadable
        return False


def why_stale(workspace: Workspace) -> str:
    """Return the chosen and the served configuration, as the reason for a new release."""
    with suppress(StoreError):  # nothing is served, or nothing can be chosen
        serving, chosen = current(workspace), choose(workspace)[0].name
        is_same = serving.configuration == chosen
        served = "an earlier build of it" if is_same else serving.configuration
        return f"{chosen} {CHOSEN}; {serving.release_id} serves {served}"
    return ""


@blaming("the chosen configuration")
def candidate_digest(workspace: Workspace) -> str:
    """Return the digest of the build to choose now. Raise NotReleasedError if there is none.

    If a rollback holds every build back, return the digest of the served release.
    """
    if kept_release(workspace):
        return current(workspace).digest
    configuration, _ = choose(workspace)
    return served_digest(workspace, configuration)


def served_digest(workspace: Workspace, configuration: Configuration) -> str:
    """Return the `Release.digest` of a possible release of a configuration's last run."""
    settings = read_settings(settings_of(workspace, configuration), configuration.name)
    return settings.digest(RUN.digest(workspace, configuration.name) or "")


@blaming("the chosen configuration")
def gate_decision(workspace: Workspace) -> Decision:
    """Return the gate's decision about the chosen configuration, without writing anything."""
    if kept := kept_release(workspace):
        return Decision(candidate=current(workspace).configuration, allowed=True, reasons=(kept,))
    configuration, why = choose(workspace)
    name = configuration.name
    problems = obstacles(workspace, configuration)
    if problems:
        return Decision(candidate=name, allowed=False, reasons=tuple(problems))
    before = current_id(workspace)
    if before and load(workspace, before).digest == served_digest(workspace, configuration):
        reason = f"{before} serves this build already; the gate says of an equal build:"
        told = reason, *compare_with_itself(workspace, name)
        return Decision(candidate=name, allowed=True, reasons=told)
    decision = decide(workspace, name, served_reference(workspace, configuration))
    return replace(decision, reasons=(*decision.reasons, *why[1:]))


def check_gate(workspace: Workspace, _: str = "") -> CheckResult:
    """Expect that the gate allows the chosen configuration."""
    try:
        decision = gate_decision(workspace)
    except (NotReleasedError, UnexpectedError) as error:
        return CheckResult(passed=False, checked=0, failures=(str(error),))
    return CheckResult(
        passed=decision.allowed,
        checked=decision.queries,
        failures=() if decision.allowed else decision.reasons,
        summary=f"{decision.candidate}: {'; '.join(decision.reasons)}" if decision.reasons else "",
    )


def check_contexts(workspace: Workspace, _: str = "") -> CheckResult:
    """Expect that the contexts of the chosen configuration meet `evaluation.health`."""
    try:
        chosen, _why = choose(workspace)
    except NotReleasedError as error:  # the check of the gate reports it
        return CheckResult(passed=True, checked=0, summary=str(error))
    evaluation = workspace.config.evaluation
    note = CONTEXT_SCORES.note(workspace, chosen.name).get("health")
    health = Health(**note) if note else measure_health([])
    served = None
    with suppress(NotReleasedError):
        served = current(workspace).metrics.get("ContextRelevance", {}).get("mean")
    relevance = None if served is None else served / evaluation.context.scale
    alerts = find_alerts(health, evaluation.health, relevance)
    return CheckResult(
        passed=all(alert.passed for alert in alerts),
        checked=health.queries,
        failures=tuple(alert.description for alert in alerts if not alert.passed),
        summary=f"{chosen.name}: {'; '.join(alert.description for alert in alerts)}",
    )


def served_reference(
    workspace: Workspace, candidate: Configuration | None = None
) -> Reference | None:
    """Return the served release as a reference for comparisons, or None before the first release.

    If the settings of the release's configuration are unchanged and few judgements failed, the
    reference has the configuration's current scores. They also cover new questions. If this
    configuration is the candidate, its last run must also have searched the builds of the release.
    In all other cases, the reference has the stored scores of the release.
    """
    try:
        serving = current(workspace)
    except NotReleasedError:
        return None
    name = serving.configuration
    listed = workspace.config.all_configurations.get(name)
    with suppress(UnexpectedError), blaming(name):  # a plugin's defect
        if (
            listed is not None
            and (
                candidate is None
                or candidate.name != name
                or RUN.note(workspace, name).get("pinned") == asdict(serving.pinned)
            )
            and _same_settings(serving.settings, settings_of(workspace, listed), serving.release_id)
            and run_is_current(workspace, listed)
            and scores_are_current(workspace, listed.name)
            and not lacking(workspace, name)
        ):
            return Reference(serving.release_id, name, read_scores(workspace, name))
    kept = kept_scores(workspace, serving.release_id, with_removed=candidate is not None)
    return Reference(serving.release_id, name, kept)


def _same_settings(served: Mapping[str, Any], present: Mapping[str, Any], release_id: str) -> bool:
    """Return whether the settings of a release and the present settings have equal fingerprints."""
    if served["names"] != present["names"]:
        return False
    with suppress(ConfigError):
        was, now = read_settings(served, release_id), read_settings(present, release_id)
        return all(
            fingerprint(getattr(was, field)) == fingerprint(getattr(now, field))
            for field in type(was).model_fields
            if field not in ("calibration", "access")
        )
    return False


def obstacles(workspace: Workspace, configuration: Configuration) -> list[str]:
    """Return the reasons against publishing a configuration's builds, or []."""
    return (
        _stale_tables(workspace, configuration)
        or _stale_scores(workspace, configuration)
        or _failed_checks(workspace, configuration)
    )


def _stale_tables(workspace: Workspace, configuration: Configuration) -> list[str]:
    problems, lost = [], 0.0
    for asset in TABLES:
        partition = open_partition(workspace, asset, configuration.key)
        todo = plan(partition)
        lost += (1 - lost) * todo.missing_share
        if not todo.is_usable:
            problems.append(
                f"{asset} {partition.key} is not current ("
                f"{counted(len(todo.stale), 'document')} stale, "
                f"{len(todo.orphaned)} orphaned, {todo.waiting} waiting)"
                + ("; see `rag quarantine`" if partition.quarantine.state() else "")
            )
    if plan_lexical(workspace, configuration.context_key):
        problems.append(f"lexical_index {configuration.context_key} is not current")
    if not problems and lost > (most := workspace.config.gate.maximum_missing_chunks):
        problems.append(
            f"{missing_documents(workspace, configuration)}. These have {100 * lost:.3g} % of the "
            f"chunks, and gate.maximum_missing_chunks is {most:g}. `rag quarantine` shows the "
            f"reasons. The next run tries these documents again. To release without them, set "
            f"gate.maximum_missing_chunks to {min(1.0, (int(100 * lost) + 1) / 100):g} in "
            f"{workspace.config.where}"
        )
    return problems


def _stale_scores(workspace: Workspace, configuration: Configuration) -> list[str]:
    gate, name = workspace.config.gate, configuration.name
    deciding = {asset_of(metric) for metric in (workspace.config.serve_metric, *gate.metrics)}
    judged = [JUDGED[asset] for asset in deciding - {"answer_presence"}]
    is_measured = (
        run_is_current(workspace, configuration)
        and scores_are_current(workspace, name)
        # The gate counts failed judgements, so incomplete scores are no obstacle here.
        and all(j.is_current(workspace, name) or j.is_incomplete(workspace, name) for j in judged)
    )
    told = "the current documents, questions and settings are not measured yet; run `rag run`"
    return [] if is_measured else [told]


def _failed_checks(workspace: Workspace, configuration: Configuration) -> list[str]:
    # Run the checks again: a failure in an earlier run still counts.
    left_out = () if workspace.config.engine(configuration) else ("lexical_index",)
    return [
        f"{asset}: {failure}"
        for asset, check in INCREMENTAL_CHECKS.items()
        if asset not in left_out
        for failure in check(workspace, configuration.key).failures
    ]


def missing_documents(workspace: Workspace, configuration: Configuration) -> str:
    """Return a sentence with the documents that are missing after failures of a model, or ""."""
    partitions = [open_partition(workspace, asset, configuration.key) for asset in TABLES]
    missing = sorted({document_id for p in partitions for document_id in plan(p).missing})
    if not missing:
        return ""
    listed = ", ".join(missing[:_LISTED_DOCUMENTS])
    more = " …" if len(missing) > _LISTED_DOCUMENTS else ""
    share = f"{len(missing)} of {workspace.documents().count()} documents"
    are = "is" if len(missing) == 1 else "are"
    return f"{share} {are} missing, because a model failed on them: {listed}{more}"
