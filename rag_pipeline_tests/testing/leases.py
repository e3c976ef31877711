"""A process of its own that is at work on a corpus."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_pipeline_tests.testing.forked import Forked

HOLDER = """
import sys
from rag_pipeline.config import load_config
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace
with lease(Workspace(load_config(sys.argv[1])).store):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(file: Path) -> Iterator[Forked]:
    """Run a process that holds the lease of a file's corpus until its input or the block ends."""
    child = Forked(HOLDER, file)
    assert child.stdout.readline() == "held\n"
    try:
        yield child
    finally:
        child.kill()
        child.wait()
