"""Read the corpus file again when it changes, in a process that loaded it before.

A code server keeps its definitions until somebody reloads it. Sensors read a changed corpus file
again, and every run does. So a changed threshold or model needs no reload, but new partitions do.
"""

from collections.abc import Callable
from contextlib import suppress

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import OtherComponentError
from rag_pipeline.workspace import Workspace


def following(workspace: Workspace) -> Callable[[], Workspace]:
    """Return a function to the workspace of the present corpus file.

    The function raises ConfigError while the file has a mistake. For a project's own workspace type
    or component it returns the workspace as loaded, because only Dagster can read that file.
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
