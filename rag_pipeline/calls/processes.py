"""Which processes are at work: a row each, renewed by a thread while the process lives.

On the machine of the reader the operating system tells at once that a process has ended. Of other
machines, and other containers, a process counts as ended 90 seconds after it was seen last.
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

from sqlalchemy import Connection, delete

from rag_pipeline.calls.schema import processes
from rag_pipeline.errors import StoreError

if TYPE_CHECKING:
    from rag_pipeline.calls.database import Database

EXPIRY_SECONDS = 90.0
_HEARTBEAT_SECONDS = 20.0


def enlist(database: "Database") -> str:
    """Add this process to the table, renew its row until the database is closed; return its name.

    Rows of processes that have ended are dropped.
    """
    name = uuid4().hex

    def work(connection: Connection) -> None:
        now = database.now(connection)
        rows = connection.execute(processes.select()).all()
        ended = [row.process for row in rows if not is_alive(row, now)]
        connection.execute(delete(processes).where(processes.c.process.in_(ended)))
        _put(database, connection, name)

    database.write(work)
    ended = Event()
    weakref.finalize(database, ended.set)
    renewing = Thread(
        target=_renew, args=(weakref.ref(database), name, ended), name="heartbeat", daemon=True
    )
    renewing.start()
    return name


def is_alive(row: Any, now: float) -> bool:
    """Tell whether the process of a row of `processes` is at work; `now` in Unix seconds."""
    if row.machine == _machine() and row.started:
        return bool(_started(row.pid) == row.started)
    return bool(now - row.seen < EXPIRY_SECONDS)


def _renew(database: "weakref.ref[Database]", name: str, ended: Event) -> None:
    while not ended.wait(_HEARTBEAT_SECONDS):
        found = database()
        if found is None or not found.is_open_as(name):
            return
        with suppress(StoreError):  # tried again in 20 seconds
            found.write(partial(_put, found, name=name))
        del found


def _put(database: "Database", connection: Connection, name: str) -> None:
    """Show this process as alive now; others may have dropped its row."""
    pid, now = os.getpid(), database.now(connection)
    row = {"process": name, "machine": _machine(), "pid": pid, "started": _started(pid)}
    insert = database.insert(processes).values(**row, seen=now)
    connection.execute(insert.on_conflict_do_update(index_elements=["process"], set_={"seen": now}))


@cache
def _machine() -> str:
    """Return a name of what process ids hold for: the boot of a machine, and a container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty if it has ended or is unknown."""
    with suppress(OSError):
        # The name, in parentheses, may hold spaces; state is the first field behind it.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    return ""
