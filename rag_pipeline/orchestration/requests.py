"""Choose the partitions that a sensor requests: stale partitions with current inputs.

A requested run has a tag with the hash of its inputs. If the last run of a partition has the same
hash, another run would have the same result. So a failed build, or a release that its gate refused,
waits until a setting or an input changes, the documents are loaded again, or `rag doctor --repair`
removes content that a check refused.

After an interruption, the next request waits longer each time. After a person's cancel of any run,
its steps are not requested until files or settings change, or somebody starts them.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from rag_pipeline.config import CorpusConfig, fingerprint
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.names import asset_key, job_name, update_job_name
from rag_pipeline.orchestration.recovery import MAY_BE_LOST, fail_lost_runs, was_interrupted
from rag_pipeline.pipeline.driver import passed, refused, repaired
from rag_pipeline.pipeline.planning import (
    DOCUMENTS,
    Step,
    is_incomplete,
    plan_step,
    steps,
    upstream,
)
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

INPUTS_TAG = "rag_pipeline/inputs"
SOURCES_TAG = "rag_pipeline/sources"
"""The tag with the digest of the files and settings that a run reads (see `sources_digest`)."""
LEFT_TAG = "rag_pipeline/left"
"""The tag with the hashes of the steps that a run of the whole corpus could not make."""
PARTITION_TAG = "dagster/partition"
WAITS = (0.0, 60.0, 300.0, 1800.0, 3600.0)
"""Seconds to wait after the first, second … interruption in a row, and after any later one."""

LOADED = time.time()
"""Unix time when this process loaded the definitions. Older code may cause interruptions."""
_LOOKED_AT = 20
_CANCELED_LOOKED_AT = 100
_NOTHING = "its last run did not make it from these inputs; its log says why"
_FINISHED = [
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
]
_UNFINISHED = [dg.DagsterRunStatus.QUEUED, *MAY_BE_LOST]


@dataclass(slots=True)
class Survey:
    """The state of every stale step.

    `requests` maps each step to request now to the hash of its inputs. `waiting` lists steps that
    run, or that read a running or requested step. `stuck` maps each step that failed with its
    current inputs, or that reads a stuck step, to the reason. `held` is the reason why no step of
    the whole corpus is requested, or "".
    """

    requests: dict[Step, str] = field(default_factory=dict)
    waiting: list[Step] = field(default_factory=list)
    stuck: dict[Step, str] = field(default_factory=dict)
    held: str = ""

    def causes(self) -> list[str]:
        """Return a line for each step that is stuck by itself, with the number of its readers."""
        if self.held:
            return [self.held]
        roots: dict[Step, Step] = {}
        for step, reason in self.stuck.items():
            before = next((b for b in roots if reason == f"it reads {b}"), step)
            roots[step] = roots.get(before, step)
        behind = Counter(roots.values())
        return [
            f"{step}{f', and {count - 1} steps that read it' if count > 1 else ''}: "
            f"{self.stuck[step]}"
            for step, count in behind.items()
        ]


def survey(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> Survey:
    """Compare every step with its inputs, without reading documents or calling models.

    With `one_run`, one run makes all requested steps. Otherwise each step has its own run.
    """
    config = workspace.config
    found = Survey()
    _tag_canceled(instance, config)
    left = _left(instance, config)
    running = set(running_steps(instance, config))
    loaded = _last_load(instance, config)
    for step in steps(config):
        before = upstream(config, step)
        stuck = [b for b in before if b in found.stuck]
        if not step.row.needs_all_inputs and len(stuck) < len(before):
            stuck = []
        if step in running or any(b in found.waiting or b in found.requests for b in before):
            found.waiting.append(step)
        elif stuck:
            found.stuck[step] = f"it reads {stuck[0]}"
        else:
            try:
                if _settled(workspace, step):
                    continue
                inputs = _inputs(workspace, step, loaded)
            except RagPipelineError as error:
                found.stuck[step] = str(error)
                continue
            why_not = _NOTHING if inputs in left else None
            if not one_run and why_not is None:
                why_not = refusal(workspace, instance, step, [step], inputs)
            if why_not == _NOTHING:
                why_not = refused(workspace, step) or why_not
            if why_not is None:
                found.requests[step] = inputs
            # Failed judgements do not stop later steps; the run after the next load repeats them.
            elif not is_incomplete(workspace, step):
                found.stuck[step] = why_not
    if one_run and found.requests:
        wanted = [*found.requests, *found.waiting]
        found.held = refusal(workspace, instance, None, wanted, all_inputs(found)) or ""
        if found.held:
            found.stuck |= dict.fromkeys(found.requests, found.held)
            found.requests.clear()
            found.waiting.clear()
    return found


def summary(stale: Collection[Step]) -> str:
    """Return the state of a corpus in words, for the ticks of all its sensors."""
    return f"{len(stale)} partitions are stale" if stale else "everything is current"


def all_inputs(found: Survey) -> str:
    """Return one hash of the inputs of all requests."""
    return _hash(sorted((str(step), inputs) for step, inputs in found.requests.items()))


def sources_digest(config: CorpusConfig) -> str:
    """Return a hash of everything outside the store that a run reads: files, queries, settings.

    Unlike the hash of a step's inputs, it stays the same while a run makes progress.
    """
    queries = config.queries_path
    status = queries.stat() if queries and queries.is_file() else None
    settings = [getattr(config, name) for name in type(config).model_fields]
    asked = status and (status.st_size, status.st_mtime_ns)
    return fingerprint(listing_digest(config), asked, *settings)


def refusal(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step | None,
    wanted: Collection[Step],
    inputs: str | None = None,
) -> str | None:
    """Return the reason why a step, or the whole corpus, is not requested again, or None.

    A person's cancel of a run of a `wanted` step counts, whatever job the run had. Otherwise the
    newest finished run of the request's job decides. If it was not interrupted, `inputs` must
    differ from the run's inputs. If `inputs` is None, the sources must differ.
    """
    config = workspace.config
    job, canceled = job_of(config, step), _canceled(instance, config, wanted)
    if canceled is not None:
        sources = sources_digest(config)
        if SOURCES_TAG not in canceled.tags:
            instance.add_run_tags(canceled.run_id, {SOURCES_TAG: sources})
        if canceled.tags.get(SOURCES_TAG) in (None, sources):
            return f"its last run was canceled; start {job}, or change a file or a setting"
    tags = {PARTITION_TAG: step.partition} if step and step.partition else {}
    own = dg.RunsFilter(job_name=job, tags=tags, statuses=_FINISHED)
    records = instance.get_run_records(own, limit=_LOOKED_AT)
    if not records or records[0].dagster_run.status == dg.DagsterRunStatus.CANCELED:
        return None
    newest, sources = records[0].dagster_run, sources_digest(config)
    if not was_interrupted(instance, newest):
        tag, value = (SOURCES_TAG, sources) if inputs is None else (INPUTS_TAG, inputs)
        return _NOTHING if newest.tags.get(tag) == value else None
    in_a_row = 0
    for record in records:
        run = record.dagster_run
        counts = run.tags.get(SOURCES_TAG) in (None, sources)
        counts = counts and record.create_timestamp.timestamp() >= LOADED
        if not counts or not was_interrupted(instance, run):
            break
        in_a_row += 1
    ended = records[0].end_time or records[0].update_timestamp.timestamp()
    next_at = ended + WAITS[min(in_a_row, len(WAITS)) - 1] if in_a_row else 0.0
    if time.time() >= next_at:
        return None
    clock = datetime.fromtimestamp(next_at, UTC)
    return f"its last {in_a_row} runs were interrupted; the next starts at {clock:%H:%M:%S} UTC"


def _tag_canceled(instance: dg.DagsterInstance, config: CorpusConfig) -> None:
    """Add the hash of the sources to canceled runs whose ops have not added it.

    A cancel then holds until the sources differ from those at the first look after it.
    """
    canceled = dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED])
    for run in instance.get_runs(canceled, limit=_LOOKED_AT):
        if SOURCES_TAG not in run.tags and steps_of(config, run):
            instance.add_run_tags(run.run_id, {SOURCES_TAG: sources_digest(config)})


def _canceled(
    instance: dg.DagsterInstance, config: CorpusConfig, wanted: Collection[Step]
) -> dg.DagsterRun | None:
    """Return the newest canceled run with a wanted step that no later run has tried, or None."""
    canceled = dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED])
    for run in instance.get_runs(canceled, limit=_CANCELED_LOOKED_AT):
        held = {*wanted}.intersection(steps_of(config, run))
        cursor = run.run_id
        later = dg.RunsFilter(statuses=_FINISHED)
        while held and (page := instance.get_runs(later, cursor, _LOOKED_AT, ascending=True)):
            held.difference_update(*(steps_of(config, other) for other in page))
            cursor = page[-1].run_id
        if held:
            return run
    return None


def left_over(workspace: Workspace, instance: dg.DagsterInstance, failed: Collection[Step]) -> str:
    """Return the value of `LEFT_TAG` for a run with failed steps."""
    loaded = _last_load(instance, workspace.config)
    left = []
    for step in steps(workspace.config):
        try:
            if step in failed or is_incomplete(workspace, step):
                left.append(_inputs(workspace, step, loaded))
        except RagPipelineError:
            continue  # its inputs are unknown; the survey reports why
    return " ".join(left)


def _left(instance: dg.DagsterInstance, config: CorpusConfig) -> Collection[str]:
    wanted = dg.RunsFilter(job_name=update_job_name(config))
    runs = instance.get_runs(wanted, limit=_LOOKED_AT)
    return next((run.tags[LEFT_TAG].split() for run in runs if LEFT_TAG in run.tags), ())


def _inputs(workspace: Workspace, step: Step, loaded: str) -> str:
    """Return the hash of a step's inputs.

    The hash of the documents leaves out the last load. Otherwise a failed check would cause a new
    load. A repair of refused content changes the hash, so that the step is requested again.
    """
    after = loaded if upstream(workspace.config, step) else None
    made_from = step.row.made_from(workspace, step.key(workspace.config))
    return _hash(step, made_from, after, repaired(workspace, step))


def why_not_loaded(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> str | None:
    """Return the reason why changed files are not loaded again, or None if nothing prevents it."""
    if listing_digest(workspace.config) == loaded_listing(workspace):
        return None
    return refusal(workspace, instance, None if one_run else DOCUMENTS, [DOCUMENTS])


def run_request(
    config: CorpusConfig, step: Step | None, inputs: str | None = None
) -> dg.RunRequest:
    """Return the request of one step, or of all stale steps, with tags for the inputs."""
    tags = {} if inputs is None else {INPUTS_TAG: inputs}
    return dg.RunRequest(
        job_name=job_of(config, step),
        partition_key=step.partition if step else None,
        # The sensor repeats the request, so a retry by the daemon would be a second run.
        tags={
            "corpus": config.corpus,
            SOURCES_TAG: sources_digest(config),
            "dagster/max_retries": "0",
            **tags,
        },
    )


def job_of(config: CorpusConfig, step: Step | None) -> str:
    """Return the name of the job of a step, or of the job of the whole corpus."""
    return job_name(config, step.asset) if step else update_job_name(config)


def is_run_of(config: CorpusConfig, run: dg.DagsterRun) -> bool:
    """Return whether a run works on a corpus."""
    by_job = {update_job_name(config), *(job_name(config, name) for name in ASSETS)}
    mine = {asset_key(config, name) for name in ASSETS}
    return run.job_name in by_job or not mine.isdisjoint(run.asset_selection or ())


def fail_lost_runs_of(config: CorpusConfig, context: dg.SensorEvaluationContext) -> None:
    """Fail and log a corpus's runs whose process is gone. Runs that only make checks count, too."""
    mine = {asset_key(config, name) for name in ASSETS}

    def is_ours(run: dg.DagsterRun) -> bool:
        checked = {key.asset_key for key in run.asset_check_selection or ()}
        return is_run_of(config, run) or not mine.isdisjoint(checked)

    for run_id in fail_lost_runs(context.instance, is_ours):
        context.log.warning(f"run {run_id} is failed: its process is gone")


def running_steps(instance: dg.DagsterInstance, config: CorpusConfig) -> Iterator[Step]:
    """Yield the steps of all unfinished runs."""
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        yield from steps_of(config, run)


def steps_of(config: CorpusConfig, run: dg.DagsterRun) -> list[Step]:
    """Return the steps that a run may make.

    A run from an asset's page or of a backfill names its assets. The job of any other run tells its
    assets. A run without a partition counts for all partitions.
    """
    selected, partition = run.asset_selection or (), run.tags.get(PARTITION_TAG)
    whole, jobs = run.job_name == update_job_name(config), partial(job_name, config)
    return [
        step
        for step in steps(config)
        if partition in (None, step.partition)
        and (
            whole
            or asset_key(config, step.asset) in selected
            or (not selected and run.job_name in map(jobs, (step.asset, step.row.made_by)))
        )
    ]


def _settled(workspace: Workspace, step: Step) -> bool:
    # Comparing documents would hash every file; another sensor compares their listing.
    stale = bool(step.row.reads) and plan_step(workspace, step).must_run
    return not stale and passed(workspace, step)


def _last_load(instance: dg.DagsterInstance, config: CorpusConfig) -> str:
    event = last_event(instance, asset_key(config, "documents"))
    return event.run_id if event else "never"


def last_event(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.EventLogRecord | None:
    """Return an asset's newest materialization or observation by any run, or None without one."""
    made = instance.fetch_materializations(key, limit=1).records
    found_current = instance.fetch_observations(key, limit=1).records
    return max((*made, *found_current), key=lambda record: record.storage_id, default=None)


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
