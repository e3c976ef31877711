"""`rag`: run, look into and search a corpus from the command line."""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from rag_pipeline.cli.main import app
from rag_pipeline.cli.main import main as _main

__all__ = ["app", "main"]


def main() -> NoReturn:
    """Run the command line as a process of its own, and end that process.

    Taking the interpreter down can race with the threads of native libraries that still let go of
    Python objects, and such a race aborts the process: what succeeded would seem to have failed.
    """
    code: object = 0
    try:
        _main()
    except SystemExit as stop:
        code = stop.code
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read them may be gone
            stream.flush()
    os._exit(code if isinstance(code, int) else int(bool(code)))
