"""Python processes forked from one that has imported what a run of a corpus needs.

Such a process runs code as `python -c` does, but starts in 0.1 s of processor time instead of up
to 5 s. Where it matters what a program imports when it starts, start the program itself.
"""

import atexit
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rag_pipeline_tests.testing.preloaded"])


class Forked:
    """A process that runs code, with pipes for what it reads and prints."""

    def __init__(
        self,
        code: str,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: Path | None = None,
        stderr: Path | None = None,
    ) -> None:
        """Start it; a file that is given for `stdout` or `stderr` is added to."""
        environment = dict(os.environ if env is None else env)
        asked, answers = _CONTEXT.Pipe(duplex=False), _CONTEXT.Pipe(duplex=False)
        files = [file and str(file) for file in (stdout, stderr)]
        words = ["-c", *map(str, arguments)]
        # Not joined at the end of the tests: one that hangs fails its own test alone.
        self._process = _CONTEXT.Process(
            target=_execute,
            args=(code, words, environment, str(cwd or Path.cwd()), asked[0], answers[1], files),
            daemon=True,
        )
        self._process.start()
        self.stdin: TextIO = os.fdopen(os.dup(asked[1].fileno()), "w")
        self.stdout: TextIO = os.fdopen(os.dup(answers[0].fileno()))
        for end in (*asked, *answers):
            end.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal, or None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Wait until it ends; return its exit code."""
        self.stdin.close()
        self._process.join(seconds)
        self.stdout.close()
        assert self._process.exitcode is not None, f"it still runs after {seconds} s"
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()


def run(
    code: str, *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code to its end; return its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code_of = Forked(code, *arguments, env=env, cwd=cwd, stdout=out, stderr=err).wait()
        return subprocess.CompletedProcess(
            [*map(str, arguments)], code_of, out.read_text(), err.read_text()
        )


def _execute(
    code: str,
    words: list[str],
    environment: dict[str, str],
    folder: str,
    asked: Connection,
    answers: Connection,
    files: list[str | None],
) -> None:
    os.dup2(asked.fileno(), 0)
    os.dup2(answers.fileno(), 1)
    for number, file in enumerate(files, 1):
        if file is not None:
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(opened, number)
            os.close(opened)
    asked.close()
    answers.close()
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = words
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    warnings.simplefilter("ignore")
    # A daemon of multiprocessing may have no processes of its own.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # multiprocessing does without
