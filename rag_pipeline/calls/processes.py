"""Record each running process in one row. A thread of the process renews the row.

The operating system tells whether a process of the same machine still runs. A process of another
machine or container counts as ended if its row was not renewed for 90 seconds.
"""

import os
import socket
import weakref
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rag_pipeline.calls import sql
from rag_pipeline.errors import StoreError

if TYPE_CHECKING:
    from rag_pipeline.calls.database import Database

EXPIRY_SECONDS = 90.0
_HEARTBEAT_SECONDS = 20.0


def enlist(database: "Database") -> str:
    """Add this process to the table, delete ended processes, and return the name of this process.

    The row is renewed until the database is closed.
    """
    name, closed = uuid4().hex, Event()

    def work(connection: "sql.Connection") -> None:
        now = database.now(connection)
        rows = connection.execute(sql.processes.select()).all()
        ended = [row.process for row in rows if not is_alive(row, now)]
        connection.execute(sql.delete(sql.processes).where(sql.processes.c.process.in_(ended)))
        _renew(database, connection, name)

    database.write(work)
    weakref.finalize(database, closed.set)
    arguments = weakref.ref(database), name, closed
    Thread(target=_renew_until, args=arguments, name="heartbeat", daemon=True).start()
    return name


def is_alive(row: Any, now: float) -> bool:
    """Return whether the process of a row still runs; `now` is the time in Unix seconds."""
    if row.machine == _machine() and row.started:
        return bool(_started(row.pid) == row.started)
    return bool(now - row.seen < EXPIRY_SECONDS)


def _renew_until(database: "weakref.ref[Database]", name: str, closed: Event) -> None:
    while not closed.wait(_HEARTBEAT_SECONDS):
        found = database()
        if found is None or not found.is_open_as(name):
            return
        with suppress(StoreError):  # the next heartbeat tries again
            found.write(partial(_renew, found, name=name))
            if found.unreleased:
                found.release_claims()
        del found


def _renew(database: "Database", connection: "sql.Connection", name: str) -> None:
    # An upsert: another machine may have deleted the row.
    pid, seen = os.getpid(), database.now(connection)
    row = {"process": name, "machine": _machine(), "pid": pid, "started": _started(pid)}
    connection.execute(database.upsert(sql.processes, "seen"), {**row, "seen": seen})


@cache
def _machine() -> str:
    """Return a name of this boot and container. Process ids are unique within it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return the start time of a process in kernel ticks, or "" if it is unknown or has ended."""
    with suppress(OSError):
        # The second field, a name in parentheses, may contain spaces; the state follows it.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    return ""
