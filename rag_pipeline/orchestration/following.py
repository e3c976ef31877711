"""The corpus file as it is now, in a process that loaded the project long ago.

A code server keeps its definitions until somebody reloads it. Sensors look at the file's time and
read it again when it has changed, and a run's own process reads it anyway: a changed threshold or
another model needs no reload. Partitions that the file has new are shown after one.
"""

from collections.abc import Callable
from contextlib import suppress

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import OtherComponentError
from rag_pipeline.workspace import Workspace


def following(workspace: Workspace) -> Callable[[], Workspace]:
    """Return a function to the workspace of the corpus file as it is now.

    It raises ConfigError while the file has a mistake. That of a project's own workspace or
    component is as it was loaded: only Dagster knows how that component reads its file.
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
