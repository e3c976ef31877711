"""Hooks of pytest that run files of tests side by side: `-n4` forks four processes.

Without a blank: pytest takes a separate number for a path before it has read these hooks.
Tests are collected once, and what they need is imported once, before the processes are forked.
Each process takes the next file from a pipe when it has ended one, and sends its reports.
"""

import atexit
import importlib
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest
from _pytest.reports import TestReport

_FORK = multiprocessing.get_context("fork")
_BYTES = 2
"""Bytes of a file's number in the pipe."""
_PATIENCE_SECONDS = 60
"""A process that is stopped in a test may end its servers in this time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `-n`."""
    described = "run files of tests in this many processes; 0: in this one"
    group = parser.getgroup("side by side")
    # Only pytest itself may add short options in lower case by the public method.
    group._addoption("-n", "--processes", type=int, default=0, metavar="N", help=described)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forked processes, if more than one is asked for."""
    by_path: dict[Path, list[pytest.Item]] = {}
    for item in session.items:
        by_path.setdefault(item.path, []).append(item)
    files = [*by_path.values()]
    count = min(session.config.option.processes, len(files))
    if count < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    with warnings.catch_warnings():
        importlib.import_module("rag_pipeline_tests.testing.preloaded")
    # The base of all temporary folders, which each process divides.
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    waiting, filled = os.pipe()
    os.write(filled, b"".join(n.to_bytes(_BYTES, "big") for n in range(len(files))))
    os.close(filled)
    processes = {}
    for number in range(count):
        reports, sent = _FORK.Pipe(duplex=False)
        arguments = (session, files, waiting, sent, number, [*processes, reports])
        process = _FORK.Process(target=_run, args=arguments)
        with warnings.catch_warnings():
            # Lance warns of threads that a fork loses; none has been started so far.
            warnings.simplefilter("ignore")
            process.start()
        sent.close()
        processes[reports] = process
    os.close(waiting)
    try:
        _report(session, processes)
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for process in processes.values():
            process.join(_PATIENCE_SECONDS)
            process.kill()
    return True


def _report(session: pytest.Session, processes: dict[Connection, Any]) -> None:
    """Report the tests of all processes until the last one has ended."""
    hook, running = session.config.hook, dict.fromkeys(processes, ("", None))
    while running:
        for reports in wait([*running]):
            assert isinstance(reports, Connection)
            try:
                kind, told = reports.recv()
            except EOFError:
                node, location = running.pop(reports)
                processes[reports].join()
                if code := processes[reports].exitcode:
                    said = f"the process ended with {code}; what is left of the file did not run"
                    died = TestReport(node, location or ("", 0, ""), {}, "failed", said, "call")
                    hook.pytest_runtest_logreport(report=died)
                continue
            if kind == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=told)
                hook.pytest_runtest_logreport(report=report)
            elif kind == "start":
                running[reports] = told
            elif kind == "end":
                del running[reports]
            else:
                hook.pytest_runtest_logfinish(nodeid=told[0], location=told[1])
        if session.shouldfail:
            raise session.Failed(session.shouldfail)


class _Sender:
    """Sends the reports of a process, and which test is running."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int, str]) -> None:
        self._connection.send(("start", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        told = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", told))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int, str]) -> None:
        self._connection.send(("finish", (nodeid, location)))


def _run(
    session: pytest.Session,
    files: list[list[pytest.Item]],
    waiting: int,
    sent: Connection,
    number: int,
    of_parent: list[Connection],
) -> None:
    """Run files from the pipe until it is empty."""
    for connection in of_parent:
        connection.close()  # so that sending fails once the parent is gone
    config = session.config
    # The position in the files that capture the output is shared, so each process has its own.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    terminal = config.pluginmanager.getplugin("terminalreporter")
    terminal._tw._file = Path(os.devnull).open("w")  # noqa: SIM115
    folders = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / f"p{number}"
    folders._basetemp.mkdir()
    config.pluginmanager.register(_Sender(config, sent))
    tests = _tests(files, waiting)
    item = next(tests, None)
    while item is not None:
        # Known before the test ends, or fixtures of the session would end with each file.
        following = next(tests, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    atexit._run_exitfuncs()  # multiprocessing does without
    sent.send(("end", None))  # a process that a test has left may hold the pipe open


def _tests(files: list[list[pytest.Item]], waiting: int) -> Iterator[pytest.Item]:
    while number := os.read(waiting, _BYTES):
        yield from files[int.from_bytes(number, "big")]
