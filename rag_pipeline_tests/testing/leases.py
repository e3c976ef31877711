"""A process of its own that is at work on a corpus."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
def held(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lease of a file's corpus until its input or the block ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with child:
        yield child
        child.kill()
