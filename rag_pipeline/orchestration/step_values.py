"""Store the values that one step of a run passes to another as JSON in the store.

Dagster's own IO manager writes pickles to the local disk, but steps may run on different machines.
The package never unpickles content of a store, because unpickling can run code.
"""

from typing import Any

import dagster as dg
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import StoreError
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.workspace import Workspace


def step_values_key(config: CorpusConfig) -> str:
    """Return the resource key of a corpus's step values."""
    return identifier(config, "step_values")


class StepValues(dg.IOManager):
    """An IO manager that stores values as JSON under `<store>/<corpus>/steps/<run id>/`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write one output."""
        self._workspace.store.write_json(_path(context), to_jsonable_python(obj))

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the output that is connected to an input."""
        assert context.upstream_output is not None
        path = _path(context.upstream_output)
        value = self._workspace.store.read_json(path)
        if value is None:
            raise StoreError(
                f"{self._workspace.store.url}: no {path}: the run that made it has finished and "
                f"cleared it; launch a new run, which does only the rest"
            )
        made = context.upstream_output.dagster_type
        return TypeAdapter(made.typing_type if made else Any).validate_python(value)


def clear_step_values(workspace: Workspace, run: dg.DagsterRun) -> None:
    """Delete the values of a run and of the earlier runs that it retries."""
    for run_id in dict.fromkeys((run.run_id, run.parent_run_id, run.root_run_id)):
        if run_id:
            workspace.store.files.remove_folder(f"steps/{run_id}")


def _path(context: dg.OutputContext) -> str:
    return f"steps/{'/'.join(context.get_identifier())}.json"
