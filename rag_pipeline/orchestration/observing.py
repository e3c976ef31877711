"""The sensor that keeps `files` and `settings` observed, so that the UI shows what is stale."""

import hashlib
from collections.abc import Callable, Mapping

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.assets import build_assets
from rag_pipeline.orchestration.following import following
from rag_pipeline.orchestration.inputs import build_inputs
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.orchestration.requests import fail_lost_runs_of, running_steps
from rag_pipeline.orchestration.staleness import Graph, reconcile
from rag_pipeline.orchestration.step_values import StepValues, step_values_key
from rag_pipeline.pipeline.dry_run import stale_steps
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.store.lease import at_work
from rag_pipeline.workspace import Workspace

OBSERVED_SECONDS = 30
"""Least time in seconds between two looks at the inputs."""


def graph_of(workspace: Workspace) -> Graph:
    """Return Dagster's graph of a corpus's inputs and assets."""
    config = workspace.config
    definitions = dg.Definitions(
        assets=[*build_inputs(config, lambda _: None), *build_assets(workspace)],
        resources={step_values_key(config): StepValues(workspace)},
    )
    return definitions.resolve_asset_graph()


class Observer:
    """Compares a corpus, as its file is now, with what a Dagster instance knows of it."""

    def __init__(self, workspace: Workspace) -> None:
        self._now = following(workspace)
        self._graph: tuple[CorpusConfig, Graph] | None = None

    def observe(self, instance: dg.DagsterInstance) -> list[Step]:
        """Report what has changed; return the stale steps. See `reconcile`."""
        workspace = self._now()
        config = workspace.config
        if self._graph is None or self._graph[0] is not config:
            self._graph = config, graph_of(workspace)
        return reconcile(workspace, instance, self._graph[1])

    def observe_after(self, instance: dg.DagsterInstance, tell: Callable[[str], object]) -> None:
        """Observe at the end of a run, which is no worse for what can't be observed; tell why."""
        try:
            self.observe(instance)
        except Exception as error:  # noqa: BLE001 (whatever it is, the run itself did well)
            tell(f"files and settings are not observed: {type(error).__name__}: {error}")

    def observe_at_rest(self, instance: dg.DagsterInstance, seen: str = "") -> tuple[str, str]:
        """Observe unless a run is at work, or corpus and instance are as they were when `seen`.

        Returns in words what came of it, and how both look now.
        """
        workspace = self._now()
        if other := at_work(workspace.store):
            return other, seen
        if running := next(running_steps(instance, workspace.config), None):
            return f"a run is at work on {running}", seen
        stale = stale_steps(workspace)
        if _look_of(stale, instance) != seen:
            self.observe(instance)
        said = f"{len(stale)} partitions are stale" if stale else "everything is current"
        return said, _look_of(stale, instance)


def _look_of(stale: Mapping[Step, str], instance: dg.DagsterInstance) -> str:
    """Return the hash of what is stale, and of the newest event, as Dagster's lookups are dear."""
    newest = instance.event_log_storage.get_maximum_record_id()
    return hashlib.sha256(repr((newest, *stale.items())).encode()).hexdigest()[:16]


def build_observing_sensor(config: CorpusConfig, observer: Observer) -> dg.SensorDefinition:
    """Return the sensor that observes the inputs; it is on by default and starts no run.

    It fails the runs whose process is gone, too, which would hold everything up for good.
    """

    @dg.sensor(
        name=identifier(config, "observed_inputs"),
        minimum_interval_seconds=OBSERVED_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Observe files and settings, so that what is stale is shown as stale. Looks "
        "at names, sizes and times of files; starts no run.",
    )
    def observed_inputs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        fail_lost_runs_of(config, context)  # the other sensors may be off
        said, seen = observer.observe_at_rest(context.instance, context.cursor or "")
        context.update_cursor(seen)
        return dg.SkipReason(said)

    return observed_inputs
