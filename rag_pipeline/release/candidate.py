"""Which configuration should be served, and what stands in its way."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rag_pipeline.config import Configuration, fingerprint
from rag_pipeline.errors import ConfigError, NotReleasedError, StoreError
from rag_pipeline.evaluation.comparison import Reference, evaluated_scores, measured_metrics
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.presence import scores_are_current
from rag_pipeline.evaluation.results import JUDGED, RUN
from rag_pipeline.evaluation.runs import retriever_of, run_is_current
from rag_pipeline.evaluation.scores import Values, asset_of, read_scores
from rag_pipeline.evaluation.summary import mean_of_known
from rag_pipeline.indexing import STAGES, open_stage, plan, plan_lexical
from rag_pipeline.release.checks import CHECKS, CheckResult
from rag_pipeline.release.gate import Decision, decide, kept_scores
from rag_pipeline.release.judging import judge
from rag_pipeline.release.manifest import CURRENT, current, current_id, load
from rag_pipeline.release.settings import read_settings, record_chats
from rag_pipeline.workspace import Workspace

_NAMED = 20


def choose(workspace: Workspace) -> tuple[Configuration, list[str]]:
    """Return the configuration to serve and why: the named one, or the best by `serve_metric`.

    The reasons after the first name what was rolled back, which leaves the choice to the others.
    """
    config = workspace.config
    board = load_leaderboard(workspace).configurations
    evaluated = {row.name for row in board}
    if not evaluated:
        raise NotReleasedError(f"{config.corpus}: no configuration has been evaluated yet")
    if config.serve != "best":
        if config.serve not in evaluated:
            raise NotReleasedError(f"{config.corpus}: {config.serve} has not been evaluated yet")
        return config.configuration(config.serve), [f"serve: {config.serve}"]
    held_back = set((workspace.store.read_json(CURRENT) or {}).get("held_back", []))
    scores = evaluated_scores(workspace)
    (metric,) = measured_metrics([config.serve_metric], scores.values())
    values = {
        row.name: scores.get(row.name, {}).get(metric, {})
        for row in board
        if not held_back
        or held_back.isdisjoint(served_digests(workspace, config.configuration(row.name)))
    }
    if not values:
        raise NotReleasedError(
            f"{config.corpus}: every evaluated build was rolled back; change something and run "
            f"again"
        )
    back = ", ".join(row.name for row in board if row.name not in values)
    also = [f"not chosen, as the build was rolled back: {back}"] if back else []
    common, complete = comparable(values, config.gate.maximum_missing)
    if not common:
        if any(v is not None for own in values.values() for v in own.values()):
            raise NotReleasedError(
                f"{config.corpus}: {metric} is missing on more than a share of "
                f"{config.gate.maximum_missing:g} of the queries under every configuration "
                f"(gate.maximum_missing); evaluate again"
            )
        first = next(name for name in config.all_configurations if name in evaluated)
        return config.configuration(first), ["no query has gold: the first one listed", *also]
    means = {name: mean_of_known(values[name][q] for q in common) or 0.0 for name in complete}
    best = max(complete, key=lambda name: means[name])
    left_out = len(values) - len(complete)
    return config.configuration(best), [
        f"best {metric}: {means[best]:.4f} over {len(common)} queries, of "
        f"{len(board)} configurations"
        + (f"; {left_out} lack it on too many queries" if left_out else ""),
        *also,
    ]


def comparable(values: Mapping[str, Values], maximum_missing: float) -> tuple[list[str], list[str]]:
    """Return the queries that configurations are compared on, and the configurations compared.

    A configuration that lacks the metric on more than a share of `maximum_missing` of the queries
    that any configuration has it on is not compared: what it lacks may be what it is bad at. The
    others are compared on the queries that all of them have.
    """
    known = {n: {q for q, v in own.items() if v is not None} for n, own in values.items()}
    any_has = set().union(*known.values())
    complete = [
        n for n, own in known.items() if len(any_has - own) <= maximum_missing * len(any_has)
    ]
    if not any_has or not complete:
        return [], complete
    return sorted(set.intersection(*(known[n] for n in complete))), complete


def is_current(workspace: Workspace) -> bool:
    """Return whether the release is the build that would be chosen now."""
    try:
        configuration, _ = choose(workspace)
        release = current(workspace)
    except StoreError:  # there is none, or it can't be read
        return False
    return release.digest in served_digests(workspace, configuration)


def served_digests(workspace: Workspace, configuration: Configuration) -> set[str]:
    """Return what `Release.digest` would be of a configuration's last run, and was earlier."""
    run = RUN.digest(workspace, configuration.name) or ""
    settings = read_settings(settings_of(workspace, configuration), configuration.name)
    return {run, settings.digest(run)}


def gate(workspace: Workspace) -> Decision:
    """Return whether what would be chosen now may be released; change nothing."""
    configuration, why = choose(workspace)
    name = configuration.name
    problems = obstacles(workspace, configuration)
    if problems:
        return Decision(name, False, tuple(problems))
    before = current_id(workspace)
    if before and load(workspace, before).digest in served_digests(workspace, configuration):
        return Decision(name, True, (f"it is what {before} serves already",))
    decision = decide(workspace, name, released(workspace, configuration))
    return replace(decision, reasons=(*decision.reasons, *why[1:]))


def check_gate(workspace: Workspace, _: str = "") -> CheckResult:
    """Expect the gate to let through what would be released now."""
    try:
        decision = gate(workspace)
    except NotReleasedError as error:
        return CheckResult(False, 0, (str(error),))
    reasons = decision.reasons
    said = f"{decision.candidate}: {'; '.join(reasons)}" if reasons else ""
    failures = () if decision.allowed else reasons
    return CheckResult(decision.allowed, decision.queries, failures, said)


def released(workspace: Workspace, candidate: Configuration | None = None) -> Reference | None:
    """Return what is served as a reference to compare with, None before the first release.

    Its scores are those of today where the corpus file still lists the same configuration and
    it is not the candidate itself; else those kept when it was released.
    """
    try:
        serving = current(workspace)
    except NotReleasedError:
        return None
    name = serving.configuration
    today = workspace.config.all_configurations.get(name)
    if (
        today is not None
        and (candidate is None or candidate.name != name)
        and _are_of(serving.settings, settings_of(workspace, today), serving.release_id)
        and run_is_current(workspace, today)
        and scores_are_current(workspace, today)
    ):
        return Reference(serving.release_id, name, read_scores(workspace, name))
    return Reference(serving.release_id, name, kept_scores(workspace, serving.release_id))


def _are_of(served: Mapping[str, Any], today: Mapping[str, Any], release_id: str) -> bool:
    """Tell whether settings make what those of today make; earlier manifests record no answers."""
    served = {name: value for name, value in served.items() if name != "calibration"}
    if {"answers", "answers_chat", *served} != {"answers", "answers_chat", *today}:
        return False
    if served.get("names") != today["names"]:
        return False
    with suppress(ConfigError):
        was, now = read_settings(served, release_id), read_settings(today, release_id)
        return all(
            fingerprint(getattr(was, field)) == fingerprint(getattr(now, field))
            for field in type(was).model_fields
            if field in served
        )
    return False


def obstacles(workspace: Workspace, configuration: Configuration) -> list[str]:
    """Return why a configuration's builds can't be released; [] when they can."""
    problems = []
    for asset in STAGES:
        stage = open_stage(workspace, asset, configuration.key)
        todo = plan(stage)
        if not todo.is_usable:
            problems.append(
                f"{asset} {stage.key} is not current ({len(todo.stale)} documents stale, "
                f"{len(todo.orphaned)} orphaned, {todo.waiting} waiting)"
                + ("; `rag quarantine` says why models fail" if stage.quarantine.state() else "")
            )
    if plan_lexical(workspace, configuration.context_key):
        problems.append(f"lexical_index {configuration.context_key} is not current")
    if not problems and not run_is_current(workspace, configuration):
        problems.append("its retrieval_run is not of these builds")
    if not problems and not scores_are_current(workspace, configuration):
        problems.append("its answer_presence is not of this run")
    # Every metric that chooses or gates must be of this run; judgements that failed are counted by
    # the gate.
    deciding = {
        asset_of(m) for m in (workspace.config.serve_metric, *workspace.config.gate.metrics)
    }
    for asset in sorted(deciding - {"answer_presence"}) if not problems else []:
        name = configuration.name
        if not (
            JUDGED[asset].is_current(workspace, name)
            or JUDGED[asset].is_incomplete(workspace, name)
        ):
            problems.append(f"its {asset} is not of this run")
    return problems or _failed_checks(workspace, configuration)


def missing_documents(workspace: Workspace, configuration: Configuration) -> str:
    """Return which documents a model failed on, that are in no build, as a sentence; "" if none."""
    stages = [open_stage(workspace, asset, configuration.key) for asset in STAGES]
    missing = sorted({document_id for stage in stages for document_id in plan(stage).missing})
    if not missing:
        return ""
    named = ", ".join(missing[:_NAMED]) + (" …" if len(missing) > _NAMED else "")
    are = "is" if len(missing) == 1 else "are"
    return (
        f"{len(missing)} of {workspace.documents().count()} documents {are} missing, as "
        f"a model failed on them: {named}"
    )


def _failed_checks(workspace: Workspace, configuration: Configuration) -> list[str]:
    # Judged again here: a check that failed in an earlier run must not be forgotten by this one.
    config = workspace.config
    left_out = () if config.engine(configuration) else ("lexical_index",)
    return [
        f"{asset}: {failure}"
        for asset in CHECKS
        if asset not in left_out
        for failure in judge(workspace, asset, configuration.key).failures
    ]


def settings_of(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Return the settings themselves: the corpus file may change while this release serves."""
    config = workspace.config
    stages = ("chunking", "contextualizer", "embedding", "retriever", "reranker")
    settings = {
        stage: config.chosen(configuration, stage).model_dump(mode="json") for stage in stages
    }
    settings["retriever"] = retriever_of(workspace, configuration).model_dump(mode="json")
    settings |= record_chats("reranker", config.rerankers[configuration.reranker], config)
    answers = config.evaluation.answers
    settings["answers"] = answers.model_dump(mode="json")
    settings |= record_chats("answers", answers, config)
    return {**settings, "names": configuration.model_dump(exclude={"name"})}
