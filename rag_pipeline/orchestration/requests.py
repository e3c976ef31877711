"""Which partitions a sensor should ask for: exactly the stale ones whose inputs are ready.

A requested run carries the hash of what it would be made from. While the last run of a partition
carries the same hash, asking again would bring the same result: a failed build, or a release
that its gate refused, waits until a setting or an input changes or the documents are loaded again.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.orchestration.names import asset_key, job_name
from rag_pipeline.orchestration.verdicts import passed
from rag_pipeline.pipeline.planning import Step, is_incomplete, plan_step, steps, upstream
from rag_pipeline.workspace import Workspace

INPUTS_TAG = "rag_pipeline/inputs"
PARTITION_TAG = "dagster/partition"
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(slots=True)
class Survey:
    """Where every step that is not current stands.

    `requests` are to be asked for now, with the hash of their inputs; `waiting` run, or follow
    what runs or is asked for; `stuck` came to nothing with the inputs as they are, or follow what
    did, each with the reason.
    """

    requests: dict[Step, str] = field(default_factory=dict)
    waiting: list[Step] = field(default_factory=list)
    stuck: dict[Step, str] = field(default_factory=dict)


def survey(workspace: Workspace, instance: dg.DagsterInstance) -> Survey:
    """Compare every step with what it reads from; reads no document and calls no model."""
    config = workspace.config
    found = Survey()
    running = set(running_steps(instance, config))
    loaded = _last_load(instance, config)
    for step in steps(config):
        before = upstream(config, step)
        stuck = [b for b in before if b in found.stuck]
        if not step.row.holds_back and len(stuck) < len(before):
            stuck = []
        if step in running or any(b in found.waiting or b in found.requests for b in before):
            found.waiting.append(step)
        elif stuck:
            found.stuck[step] = f"it reads {stuck[0]}"
        else:
            try:
                if _settled(workspace, step):
                    continue
                # Its own load must not count for the documents, or a failed check would ask again.
                after = loaded if before else None
                made_from = step.row.made_from(workspace, step.key(config))
                inputs = _hash(step, made_from, after)
            except RagPipelineError as error:
                found.stuck[step] = str(error)
                continue
            if _last_inputs(instance, config, step) == inputs:
                # Items that a judge failed on hold back nothing; the next load asks for them again
                if is_incomplete(workspace, step):
                    continue
                found.stuck[step] = "its last run came to nothing"
            else:
                found.requests[step] = inputs
    return found


def run_request(config: CorpusConfig, step: Step, inputs: str) -> dg.RunRequest:
    """Return the request of one step."""
    return dg.RunRequest(
        job_name=job_name(config, step.asset),
        partition_key=step.partition,
        tags={"corpus": config.corpus, INPUTS_TAG: inputs},
    )


def running_steps(instance: dg.DagsterInstance, config: CorpusConfig) -> Iterator[Step]:
    """Yield the steps that unfinished runs work on, whoever launched them.

    A run of a job names no assets and is known by its job; one launched from an asset's page or
    by a backfill names its assets. A run without a partition counts for all partitions.
    """
    names = {step.asset for step in steps(config)}
    by_job = {job_name(config, name): name for name in names}
    by_key = {asset_key(config, name): name for name in names}
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        assets: Collection[str] = [by_key[k] for k in run.asset_selection or () if k in by_key]
        if not assets and run.job_name in by_job:
            assets = [by_job[run.job_name]]
        partition = run.tags.get(PARTITION_TAG)
        for step in steps(config):
            if step.asset in assets and partition in (None, step.partition):
                yield step


def _settled(workspace: Workspace, step: Step) -> bool:
    # Comparing the documents would hash every file; the documents sensor looks at their listing.
    stale = bool(step.row.reads) and plan_step(workspace, step).must_run
    return not stale and passed(workspace, step)


def _last_load(instance: dg.DagsterInstance, config: CorpusConfig) -> str:
    event = instance.get_latest_materialization_event(asset_key(config, "documents"))
    return event.run_id if event else "never"


def _last_inputs(instance: dg.DagsterInstance, config: CorpusConfig, step: Step) -> str | None:
    tags: Mapping[str, str] = {PARTITION_TAG: step.partition} if step.partition else {}
    wanted = dg.RunsFilter(job_name=job_name(config, step.asset), tags=tags)
    last = next(iter(instance.get_runs(wanted, limit=1)), None)
    return last.tags.get(INPUTS_TAG) if last else None


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
