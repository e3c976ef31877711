"""Choose the partitions that a sensor requests: stale partitions with current inputs.

A requested run has a tag with the hash of its inputs. If the last run of a partition has the same
hash, another run would have the same result. So a failed build, or a release that its gate refused,
waits until a setting or an input changes or the documents are loaded again. An interrupted run is
requested up to `MOST_INTERRUPTIONS` times.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.names import asset_key, job_name, update_job_name
from rag_pipeline.orchestration.recovery import MAY_BE_LOST, fail_lost_runs, was_interrupted
from rag_pipeline.pipeline.driver import passed
from rag_pipeline.pipeline.planning import Step, is_incomplete, plan_step, steps, upstream
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

INPUTS_TAG = "rag_pipeline/inputs"
LISTING_TAG = "rag_pipeline/listing"
"""The tag with the digest of the files that caused the request of a run."""
LEFT_TAG = "rag_pipeline/left"
"""The tag with the hashes of the steps that a run of the whole corpus could not make."""
PARTITION_TAG = "dagster/partition"
MOST_INTERRUPTIONS = 3
"""Maximum number of requests for a run that is interrupted each time."""

_LOOKED_AT = 20
_NOTHING = "its last run came to nothing"
_UNFINISHED = [dg.DagsterRunStatus.QUEUED, *MAY_BE_LOST]


@dataclass(slots=True)
class Survey:
    """The state of every stale step.

    `requests` maps each step to request now to the hash of its inputs. `waiting` lists steps that
    run, or that read a running or requested step. `stuck` maps each step that failed with its
    current inputs, or that reads a stuck step, to the reason.
    """

    requests: dict[Step, str] = field(default_factory=dict)
    waiting: list[Step] = field(default_factory=list)
    stuck: dict[Step, str] = field(default_factory=dict)


def survey(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> Survey:
    """Compare every step with its inputs, without reading documents or calling models.

    With `one_run`, one run makes all requested steps. Otherwise each step has its own run.
    """
    config = workspace.config
    found = Survey()
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
            job = job_name(config, step.asset)
            why_not = _NOTHING if inputs in left else None
            why_not = why_not or refusal(instance, job, INPUTS_TAG, inputs, step.partition)
            if why_not is None:
                found.requests[step] = inputs
            # Failed judgements do not stop later steps; the run after the next load repeats them.
            elif not is_incomplete(workspace, step):
                found.stuck[step] = why_not
    if one_run and found.requests:
        job = update_job_name(config)
        why_not = refusal(instance, job, INPUTS_TAG, all_inputs(found))
        if why_not is not None:
            found.stuck |= dict.fromkeys(found.requests, why_not)
            found.requests.clear()
            found.waiting.clear()
    return found


def all_inputs(found: Survey) -> str:
    """Return one hash of the inputs of all requests."""
    return _hash(sorted((str(step), inputs) for step, inputs in found.requests.items()))


def refusal(
    instance: dg.DagsterInstance, job: str, tag: str, value: str, partition: str | None = None
) -> str | None:
    """Return the reason why a job is not requested again with this tag, or None if it is."""
    tags = {PARTITION_TAG: partition} if partition else {}
    interrupted = 0
    for run in instance.get_runs(dg.RunsFilter(job_name=job, tags=tags), limit=_LOOKED_AT):
        if tag not in run.tags:
            continue  # not requested by a sensor
        if run.tags[tag] != value:
            break
        if not was_interrupted(instance, run):
            return _NOTHING
        interrupted += 1
        if interrupted == MOST_INTERRUPTIONS:
            return f"its last {interrupted} runs were interrupted"
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
    load.
    """
    after = loaded if upstream(workspace.config, step) else None
    return _hash(step, step.row.made_from(workspace, step.key(workspace.config)), after)


def why_not_loaded(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> str | None:
    """Return the reason why changed files are not loaded again, or None if nothing prevents it."""
    config = workspace.config
    listing = listing_digest(config)
    if listing == loaded_listing(workspace):
        return None
    job = update_job_name(config) if one_run else job_name(config, "documents")
    return refusal(instance, job, LISTING_TAG, listing)


def run_request(config: CorpusConfig, step: Step | None, value: str, tag: str) -> dg.RunRequest:
    """Return the request of one step, or of all stale steps, with a tag for the inputs."""
    return dg.RunRequest(
        job_name=job_name(config, step.asset) if step else update_job_name(config),
        partition_key=step.partition if step else None,
        # The sensor repeats the request, so a retry by the daemon would be a second run.
        tags={"corpus": config.corpus, tag: value, "dagster/max_retries": "0"},
    )


def is_run_of(config: CorpusConfig, run: dg.DagsterRun) -> bool:
    """Return whether a run works on a corpus."""
    by_job = {update_job_name(config), *(job_name(config, name) for name in ASSETS)}
    return run.job_name in by_job or any(
        key.path[0] == config.corpus for key in run.asset_selection or ()
    )


def fail_lost_runs_of(config: CorpusConfig, context: dg.SensorEvaluationContext) -> None:
    """Fail and log the runs of a corpus whose process is gone."""
    for run_id in fail_lost_runs(context.instance, lambda run: is_run_of(config, run)):
        context.log.warning(f"run {run_id} is failed: its process is gone")


def running_steps(instance: dg.DagsterInstance, config: CorpusConfig) -> Iterator[Step]:
    """Yield the steps of all unfinished runs.

    A run from an asset's page or of a backfill names its assets. The job of any other run tells its
    assets. A run without a partition counts for all partitions.
    """
    names = {step.asset for step in steps(config)}
    by_job = {job_name(config, name): name for name in names}
    by_key = {asset_key(config, name): name for name in names}
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        assets: Collection[str] = [by_key[k] for k in run.asset_selection or () if k in by_key]
        if run.job_name == update_job_name(config):
            assets = names
        elif not assets and run.job_name in by_job:
            assets = [by_job[run.job_name]]
        partition = run.tags.get(PARTITION_TAG)
        for step in steps(config):
            if step.asset in assets and partition in (None, step.partition):
                yield step


def _settled(workspace: Workspace, step: Step) -> bool:
    # Comparing documents would hash every file; another sensor compares their listing.
    stale = bool(step.row.reads) and plan_step(workspace, step).must_run
    return not stale and passed(workspace, step)


def _last_load(instance: dg.DagsterInstance, config: CorpusConfig) -> str:
    event = instance.get_latest_materialization_event(asset_key(config, "documents"))
    return event.run_id if event else "never"


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
