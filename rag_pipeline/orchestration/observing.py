"""Observe the `inputs` of a corpus, so that Dagster's UI shows stale partitions.

A code server keeps its definitions until somebody reloads it. Sensors and runs read a changed
corpus file again. So a changed threshold or model needs no reload, but new partitions need one.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import dagster as dg

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import OtherComponentError
from rag_pipeline.orchestration import requests, staleness
from rag_pipeline.orchestration.assets import build_assets
from rag_pipeline.orchestration.internals import CheckError, instance_of
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.pipeline.planning import Step, stale_steps, steps
from rag_pipeline.store.lease import at_work
from rag_pipeline.store.states import looking
from rag_pipeline.workspace import Workspace

Context: TypeAlias = "dg.OpExecutionContext | dg.SensorEvaluationContext"
MOST_SECONDS = 15.0
"""Seconds after which an observation leaves the rest to the next tick. Dagster ends ticks at 60."""
LOOK_SECONDS = 300.0
"""Seconds after which sensors look at the store again, because commands may have changed it."""
SENSOR_SECONDS = 60
"""Minimum seconds between two ticks of a sensor."""


def sensor(
    name: str, description: str, on: bool = True, factor: int = 1, **settings: Any
) -> Callable[[Callable[[dg.SensorEvaluationContext], Any]], dg.SensorDefinition]:
    """Return a decorator for a sensor that looks every `factor` times `SENSOR_SECONDS`.

    `on` is its default status. One tick reads each table once.
    """
    statuses = dg.DefaultSensorStatus
    settings["default_status"] = statuses.RUNNING if on else statuses.STOPPED
    settings["minimum_interval_seconds"] = factor * SENSOR_SECONDS
    return lambda look: dg.sensor(name=name, description=description, **settings)(looking()(look))


def following(workspace: Workspace) -> Callable[[], Workspace]:
    """Return a function that returns the workspace of the current corpus file.

    The function raises ConfigError while the file has an error. For a project's own workspace type
    or component it returns the given workspace, because only Dagster can read that file.
    """
    if type(workspace) is not Workspace:
        return lambda: workspace
    current, written = workspace, _written(workspace.config)

    def now() -> Workspace:
        nonlocal current, written
        found = _written(current.config)
        if found != written:
            assert current.config.file is not None
            with suppress(OtherComponentError):
                current = Workspace(load_config(current.config.file))
            written = found
        return current

    return now


def _written(config: CorpusConfig) -> tuple[int, int] | None:
    if config.file is None:
        return None
    try:
        status = config.file.stat()
    except OSError:
        return (0, 0)
    return status.st_mtime_ns, status.st_size


def graph_of(workspace: Workspace) -> staleness.Graph:
    """Return Dagster's graph of a corpus's inputs and assets."""
    inputs = staleness.build_inputs(workspace.config, lambda _: None)
    assets = [inputs, *build_assets(workspace, one_run=True)]
    return dg.Definitions(assets=assets).resolve_asset_graph()


class LastLook:
    """The result of a sensor's last look at the store, which the sensor keeps in its cursor.

    It is valid for `LOOK_SECONDS`, while files, settings, code and Dagster's events stay the same.
    Comparing these is cheaper than a look at the store.
    """

    def __init__(self, context: dg.SensorEvaluationContext, sources: str) -> None:
        self._context, self.start, self.is_valid = context, 0, False
        self.said: str | None = None
        newest = instance_of(context).event_log_storage.get_maximum_record_id()
        self._now = f"{newest} {requests.LOADED} {sources}"
        with suppress(ValueError):
            seen, at, self.said, self.start = json.loads(context.cursor or "[]")
            self.is_valid = seen == self._now and time.time() - at < LOOK_SECONDS

    def keep(self, said: str | None, start: int = 0) -> None:
        """Keep the result of a look. With None, the next tick looks from step `start` on."""
        at = 0.0 if said is None else time.time()
        self._context.update_cursor(json.dumps([self._now, at, said, start]))


class Observer:
    """A reporter of a corpus's current state to a Dagster instance."""

    def __init__(self, workspace: Workspace) -> None:
        self.now = following(workspace)
        self._loaded = workspace.config
        self._graph: tuple[CorpusConfig, staleness.Graph] | None = None
        self._agreed: staleness.Agreed = {}
        self._began: tuple[object, ...] | None = None
        self._shown: tuple[object, ...] | None = None
        """The latest state of the store and the events that a whole pass left unchanged."""

    def graph(self, context: Context) -> staleness.Graph:
        """Return the graph of the code location, which has all dependencies that a user adds.

        Return the graph of the corpus alone if the corpus file has changed since it was loaded, or
        for a run outside a code location.
        """
        workspace = self.now()
        config = workspace.config
        if self._graph is None or self._graph[0] is not config:
            repository = None
            if config is self._loaded:
                with suppress(CheckError):
                    repository = context.repository_def
            self._graph = config, repository.asset_graph if repository else graph_of(workspace)
            self._agreed = {}
        return self._graph[1]

    def observe(self, context: Context, made: Collection[Step] = ()) -> list[Step]:
        """Report the changes after a run that made some steps, and return the stale steps."""
        stale = stale_steps(self.now())
        self._reconcile(context, stale, 0, math.inf, made)
        return list(stale)

    def _reconcile(self, context: Context, stale: Mapping[Step, str], *more: Any) -> int:
        shown = staleness.ShownState(self.now(), instance_of(context), self.graph(context))
        return shown.reconcile(stale, self._agreed, *more)

    def observe_after(self, context: dg.OpExecutionContext, made: Collection[Step]) -> None:
        """Observe after a run. Log an error, because it must not fail the run."""
        try:
            self.observe(context, made)
        except Exception as error:  # noqa: BLE001 (the run itself succeeded)
            said = f"files and settings are not observed: {type(error).__name__}: {error}"
            context.log.warning(said)

    def observe_all(self, context: dg.OpExecutionContext) -> None:
        """Observe everything if no run is active, and log the result after each `MOST_SECONDS`."""
        said, left = self.observe_at_rest(context)
        while left:
            context.log.info(said)
            said, left = self.observe_at_rest(context, left)
        context.log.info(said if left == 0 else f"nothing is observed: {said}")

    def observe_at_rest(self, context: Context, start: int = 0) -> tuple[str, int | None]:
        """Observe if no run is active, from step number `start` on.

        Return the result in words, and the number of the first step that is left after about
        `MOST_SECONDS`. The number is 0 if no step is left. The number is None while a run is
        active, or if there are no documents.
        """
        workspace, began = self.now(), time.monotonic()
        if other := at_work(workspace.store):
            return other, None
        if running := next(requests.running_steps(instance_of(context), workspace.config), None):
            return f"a run is at work on {running}", None
        if missing := requests.no_documents(workspace.config):
            return missing, None
        stale = stale_steps(workspace)
        state = self._state(context, stale)
        if state == self._shown:
            return requests.summary(stale), 0
        # After a change of the stale steps, the steps before `start` may show an older state.
        if not start or self._began is None or self._began[1] != stale:
            start, self._began = 0, state
        rest = max(MOST_SECONDS / 4, began + MOST_SECONDS - time.monotonic())
        left = self._reconcile(context, stale, start, rest)
        if not left and self._state(context, stale) == self._began:
            self._shown = self._began
        shown = f"; the UI shows {left} of {len(steps(workspace.config))} partitions so far"
        return requests.summary(stale) + (shown if left else ""), left

    def _state(self, context: Context, stale: Mapping[Step, str]) -> tuple[object, ...]:
        workspace = self.now()
        in_use = [staleness.outcome_now(workspace, step) for step in steps(workspace.config)]
        newest = instance_of(context).event_log_storage.get_maximum_record_id()
        return workspace.config, stale, in_use, newest


def build_observing_sensor(config: CorpusConfig, observer: Observer) -> dg.SensorDefinition:
    """Return the sensor that observes the inputs. It is on by default and starts no run.

    It also fails runs whose process has ended, because they would block the queue.
    """

    @sensor(
        identifier(config, "observed_inputs"),
        "Observe files and settings, so that the UI shows stale partitions. Compares names, sizes "
        "and times of files; starts no run.",
        factor=2,  # to save processor time at rest
    )
    def observed_inputs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        requests.fail_lost_runs_of(config, context)  # the other sensors may be off
        last = LastLook(context, requests.sources_digest(observer.now().config))
        if last.is_valid:
            return dg.SkipReason(last.said)
        said, left = observer.observe_at_rest(context, last.start)
        last.keep(None if left is None or left else said, left or 0)
        return dg.SkipReason(said)

    return observed_inputs
