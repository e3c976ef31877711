"""Run, inspect and search a corpus with the command `rag`."""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from rag_pipeline.cli.main import app
from rag_pipeline.cli.main import main as _main

__all__ = ["app", "main"]


def main() -> NoReturn:
    """Run the command line, and end the process without the interpreter's clean-up.

    During the clean-up, threads of native libraries can still release Python objects. This can
    abort the process, so that a successful command seems to fail.
    """
    code: object = 0
    try:
        _main()
    except SystemExit as stop:
        code = stop.code
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader of a pipe may be gone
            stream.flush()
    os._exit(code if isinstance(code, int) else int(bool(code)))
