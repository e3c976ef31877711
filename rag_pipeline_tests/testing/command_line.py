"""Run `rag` in this process, as its script does, and return what it wrote."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

from rag_pipeline.cli.console import set_quiet
from rag_pipeline.cli.main import main
from rag_pipeline_tests.testing import in_memory  # noqa: F401


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


def rag(*arguments: object, encoding: str = "utf-8") -> Outcome:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
    argv = ["rag", *map(str, arguments)]
    code: Any = 0
    with mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        finally:
            set_quiet(False)  # or functions of commands that tests call print nothing
    return Outcome(int(code or 0), *(_written(stream) for stream in (out, err)))


def said(*arguments: object) -> str:
    """Return what a command writes that does its work and complains of nothing."""
    outcome = rag(*arguments)
    complaints = [line for line in outcome.err.splitlines() if not line.startswith("  ")]
    assert (outcome.code, complaints) == (0, [])
    return outcome.out


def refused(*arguments: object, code: int = 2) -> str:
    """Return the errors of a command that ends with this code and prints nothing else."""
    outcome = rag(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert "Traceback" not in outcome.err
    return outcome.err


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)
