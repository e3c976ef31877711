"""What stands in for a corpus whose file has a mistake: it stops no other corpus."""

import os
import re
from pathlib import Path

import dagster as dg

from rag_pipeline.errors import ConfigError, RagPipelineError
from rag_pipeline.orchestration.alerts import build_alert_of_mistake

_CHECKING = "DAGSTER_IS_DEFS_VALIDATION_CLI"
"""Set by `dg check defs` and `dagster definitions validate`, which are to fail."""


def definitions_of_mistake(file: Path, error: RagPipelineError) -> dg.Definitions:
    """Return a sensor that fails with the mistake, and one that alerts of it; log it.

    Raises the error where the definitions are only checked.
    """
    if os.environ.get(_CHECKING):
        raise error
    message = str(error)
    dg.get_dagster_logger().error(message)
    name = re.sub(r"\W", "_", file.parent.name if file.stem == "defs" else file.stem)

    @dg.sensor(
        name=f"{name}__has_a_mistake",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"{file} can't be read, so nothing of its corpus is here: {message}",
    )
    def has_a_mistake() -> None:
        raise ConfigError(message)

    return dg.Definitions(sensors=[has_a_mistake, *build_alert_of_mistake(file, name, message)])
