"""Make and check the steps of a run in order, and report each event.

`rag run` and Dagster's assets and jobs build everything with `drive`, except the shards that an
executor distributes.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import listening
from rag_pipeline.calls.telemetry import in_run
from rag_pipeline.errors import CheckFailedError, explained
from rag_pipeline.indexing import Plan, open_partition
from rag_pipeline.memory import release_memory
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.asset import Check
from rag_pipeline.pipeline.dry_run import RunPlan, pays
from rag_pipeline.pipeline.metadata import (
    SHOWN,
    Materialized,
    MetadataValue,
    cost_metadata,
    examples,
)
from rag_pipeline.pipeline.planning import DOCUMENTS, Step, plan_step, steps, upstream, why
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step that is not made because it depends on `cause`, a failed step."""

    step: Step
    cause: Step


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a step. `total` is the work in the asset's `unit`, or None if it is unknown."""

    step: Step
    total: int | None


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a new step before its checks."""

    step: Step
    outcome: Materialized


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check of a new step."""

    step: Step
    check: Check
    result: CheckResult


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was made and passed its checks. If `ran` is False, it was already current."""

    step: Step
    ran: bool
    seconds: float = 0.0
    calls: CallCounts = field(default_factory=CallCounts)
    outcome: Materialized | None = None
    why: str = ""
    """The reason for making the step again. Empty if it is new, or if only documents changed."""
    cpu_seconds: float = 0.0
    """Processor time in seconds of this process for the step."""

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """Return the metadata of the result, or {} for a step that was current."""
        return self.outcome.metadata if self.outcome else {}


@dataclass(frozen=True, slots=True)
class Failed:
    """A step that could not be made, or that failed a blocking check."""

    step: Step
    error: Exception


Event = Waiting | Started | Made | Checked | Done | Failed
Progress = Callable[[Step, str, int], None]
"""Called with a step, the unit of its progress (such as `chunks`) and the count."""


def drive(
    workspace: Workspace,
    plan: RunPlan,
    *,
    wanted: Sequence[Step] | None = None,
    forced: Collection[Step] = (),
    checks: bool = True,
    keep_going: bool = False,
    progress: Progress = lambda step, what, count: None,
    run_id: str = "",
) -> Iterator[Event]:
    """Make the stale steps of a run in order, check them, and yield each event.

    `wanted` lists the steps of the plan to make, by default all. Earlier calls must have made the
    steps before them. `forced` steps are made even if they are current. If `checks` is False, the
    caller checks the steps. If `keep_going` is True, a failed step stops only the steps that read
    its result. Otherwise it ends the run. Traces contain `run_id`, the id of the Dagster run.
    """
    failed, made = plan.failed, plan.made
    for step in plan.steps if wanted is None else wanted:
        failed.pop(step, None)  # an earlier try may have failed
        before = upstream(workspace.config, step)
        missing = [each for each in before if each in failed]
        if missing and (step.row.needs_all_inputs or len(missing) == len(before)):
            failed[step] = failed[missing[0]]
            yield Waiting(step, failed[step])
            continue
        try:
            started, cpu = time.perf_counter(), time.process_time()
            todo = None if step in forced else plan_step(workspace, step)
            if todo is not None and not todo.must_run and passed(workspace, step):
                yield Done(step, ran=False, calls=CallCounts(saved=_texts(workspace, step)))
                continue
            reason = ""
            if todo is not None and todo.must_run:
                reason = todo.why or why(workspace, step, made)
            if pays(workspace, step):
                plan.estimate()
            documents = todo.documents if todo else None
            yield Started(step, _total(workspace, step, documents))
            with in_run(run_id) if run_id else nullcontext(), listening(partial(progress, step)):
                outcome = make(workspace, step, documents)
            made.add(step)
            yield Made(step, outcome)
            if checks:
                yield from _checked(workspace, step)
            release_memory()  # the next step may need the memory of this step
            counts = (outcome.metadata[name] for name in ("calls_made", "calls_saved"))
            calls = CallCounts(*(count for count in counts if isinstance(count, int)))
            spent = time.perf_counter() - started, time.process_time() - cpu
            yield Done(step, True, spent[0], calls, outcome, reason, spent[1])
        except Exception as error:  # noqa: BLE001 (a bug in one step must not hide the others)
            failed[step] = step
            yield Failed(step, explained(error))
            if not keep_going:
                return


def free_steps(workspace: Workspace) -> list[Step]:
    """Return the step that loads the documents, and the chunkings that call no paid model."""
    return [
        step
        for step in steps(workspace.config)
        if step == DOCUMENTS or (step.asset == "chunks" and not pays(workspace, step))
    ]


def load_and_cut(
    workspace: Workspace,
    wanted: Sequence[Step] | None = None,
    listen: Callable[[Event], None] = lambda event: None,
    progress: Progress = lambda step, what, count: None,
) -> list[Done]:
    """Make the `wanted` steps, by default the `free_steps`, and return the finished steps.

    In a later run, these steps are current. Each event is reported to `listen`. Raise the error of
    the first step that fails.
    """
    done = []
    plan = RunPlan(workspace, free_steps(workspace) if wanted is None else wanted)
    for event in drive(workspace, plan, progress=progress):
        listen(event)
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Done):
            done.append(event)
    return done


def make(workspace: Workspace, step: Step, plan: Plan | None = None) -> Materialized:
    """Make a step, even if it is current. Charge its calls to the step, and return the result.

    The step builds the documents of `plan`, by default of a new plan. Raise the errors of the step,
    and ValueError for `assistant_prompts`, because this asset has its own command.
    """
    row, key = step.row, step.key(workspace.config)
    removed: dict[str, MetadataValue] = {}
    started = time.perf_counter()
    with workspace.charging(step.asset, key) as costs:
        if row.cleanup == "before":
            removed = _clean_up(workspace)
        if row.build is not None:
            made = row.build(workspace, key, plan)
        elif row.update is not None:
            made = row.update(workspace, key)
        else:
            raise ValueError(f"{step} is not made by the pipeline")
        if row.cleanup == "after":
            removed = _clean_up(workspace)
    # Dagster charts these four keys over time, so every materialization has them.
    seconds = round(time.perf_counter() - started, 3)
    numbers: dict[str, MetadataValue] = {"seconds": seconds, "cost_usd": 0.0, "calls_saved": 0}
    metadata: dict[str, MetadataValue] = {
        **made.metadata,
        **{name: made.metadata.get(name, number) for name, number in numbers.items()},
        "calls_made": costs.sent,
        **place_metadata(workspace, step),
        **removed,
        **cost_metadata(costs),
    }
    return keep_outcome(workspace, step, Materialized(made.version, metadata))


def keep_outcome(workspace: Workspace, step: Step, outcome: Materialized) -> Materialized:
    """Store and return a step's result, for Dagster instances that did not run the step."""
    told = {name: (type(value).__name__, value) for name, value in outcome.metadata.items()}
    record = to_jsonable_python({"version": outcome.version, "metadata": told})
    workspace.store.write_json(_outcome_file(step), record)
    return outcome


def kept_outcome(workspace: Workspace, step: Step) -> Materialized | None:
    """Return the last result of a step in any kind of run, or None if there is no result."""
    record = workspace.store.read_json(_outcome_file(step))
    if record is None:
        return None
    told = record["metadata"].items()
    metadata = {n: SHOWN[kind]._make(v) if kind in SHOWN else v for n, (kind, v) in told}
    return Materialized(record["version"], metadata)


def _outcome_file(step: Step) -> str:
    return f"outcomes/{step.store_name}.json"


def place_metadata(workspace: Workspace, step: Step) -> dict[str, MetadataValue]:
    """Return the name and address of a step's table, or the address of its file."""
    row, key = step.row, step.key(workspace.config)
    if row.table is None:
        return {"dagster/uri": workspace.store.address(row.place(key))} if row.place else {}
    table = row.table(workspace, key)
    return {
        "dagster/table_name": f"{workspace.config.corpus}.{table.name}",
        "dagster/uri": workspace.store.address(f"tables/{table.name}.lance"),
    }


def _clean_up(workspace: Workspace) -> dict[str, MetadataValue]:
    """Remove unneeded files. Return metadata about the files, or about an error."""
    try:
        freed = retention.sweep(workspace)
    except Exception as error:  # noqa: BLE001 (a defect of one variant stops no other step)
        return {"not_freed": str(explained(error))}
    if not freed:
        return {}
    return {
        "freed_bytes": sum(thing.bytes for thing in freed),
        **examples("freed", [f"{thing.what} {thing.name}" for thing in freed]),
    }


def check_step(workspace: Workspace, step: Step, check: Check) -> CheckResult:
    """Run a check of a step and return the result. Store the result of a blocking check."""
    result = check.run(workspace, step.key(workspace.config))
    if check.blocking:
        if not result.passed:
            repair = f"`rag doctor --repair {workspace.config.corpus}` repairs it"
            result = replace(result, summary=f"{result.description}; {repair}")
        state = step.row.state_of(workspace, step.key(workspace.config))
        said = "" if result.passed else f"check {check.name} failed: {result.description}"
        verdict = {"state": state, "passed": result.passed, "said": said}
        workspace.store.write_json(_verdict_file(step), verdict)
    return result


def passed(workspace: Workspace, step: Step) -> bool:
    """Return whether a step's current content passed its blocking checks, or has no such checks.

    Dagster stops later steps only in the same run. The stored result also stops other runs and the
    command line. Content that was not checked after its last change has not passed.
    """
    return not step.row.has_blocking_check or bool(_verdict(workspace, step).get("passed"))


def refused(workspace: Workspace, step: Step) -> str:
    """Return the reason and remedy if a blocking check refused a step's content, or else ""."""
    return str(_verdict(workspace, step).get("said", "")) if step.row.has_blocking_check else ""


def changed_since_check(workspace: Workspace, step: Step) -> str:
    """Return "altered" or "gone" for content that changed after its blocking check, or ""."""
    if not step.row.has_blocking_check or _verdict(workspace, step):
        return ""
    if workspace.store.read_json(_verdict_file(step)) is None:
        return ""
    return "altered" if step.row.state_of(workspace, step.key(workspace.config)) else "gone"


def _verdict(workspace: Workspace, step: Step) -> Mapping[str, Any]:
    """Return the stored result of a blocking check of the current content, or {}."""
    verdict = workspace.store.read_json(_verdict_file(step)) or {}
    state = step.row.state_of(workspace, step.key(workspace.config))
    return verdict if verdict.get("state") == state else {}


def _verdict_file(step: Step) -> str:
    return f"checks/{step.store_name}.json"


def _checked(workspace: Workspace, step: Step) -> Iterator[Checked]:
    """Run and yield each check of a step. Raise CheckFailedError if a blocking check fails."""
    failed = []
    for check in step.row.checks:
        result = check_step(workspace, step, check)
        yield Checked(step, check, result)
        if check.blocking and not result.passed:
            failed.append(f"check {check.name} failed: {result.description}")
    if failed:
        raise CheckFailedError("; ".join(failed))


def _total(workspace: Workspace, step: Step, todo: Plan | None) -> int | None:
    row = step.row
    if row.total is not None:
        return row.total(workspace, step.key(workspace.config))
    if todo is None:
        return None
    if row.unit == "documents":
        return len(todo.stale)
    before = open_partition(workspace, step.asset, step.partition or "").upstream.state()
    return sum(before[document_id].rows for document_id in todo.stale)


def _texts(workspace: Workspace, step: Step) -> int:
    """Return the number of vectors in the table of an embedding step, or 0 for other steps."""
    table = step.row.table if step.row.unit == "texts" else None
    return table(workspace, step.key(workspace.config)).count() if table else 0
