"""What processes and machines know together: small contents by name, changed one at a time.

A register is Redis or Postgres where the deployment has one, else the store's bucket (see
`store.register`), else files of this machine. Rate limits are kept in it, and of a store that
machines share claims and what they may spend.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlsplit

from rag_pipeline.calls.contexts import setting
from rag_pipeline.errors import ConfigError, StoreError, import_extra

VARIABLE = "RAG_REGISTER"
_BROKER, _DATABASE = "RAG_CELERY_BROKER", "DAGSTER_POSTGRES_URL"
_NONE = "none"
_RETRIES = 6

_log = logging.getLogger(__name__)

RegisterChange = Callable[[bytes | None], bytes | None]
"""From a name's content (None: there is none) to the new one, or None to leave it as it is.

It may be called again with newer content, and its last call counts.
"""


class Register(Protocol):
    """Contents by name."""

    @property
    def portion_seconds(self) -> float:
        """Return how many seconds' worth of a rate limit is taken at once: changes cost time."""

    def update(self, name: str, change: RegisterChange) -> None:
        """Change a name's content while nobody else does. Raises StoreError."""


@dataclass(eq=False, slots=True)
class FileRegister:
    """Files of this machine and user, locked while they are read and written."""

    folder: Path
    portion_seconds: float = 0.0
    _alone: dict[str, bytes] = field(init=False, default_factory=dict)

    def update(self, name: str, change: RegisterChange) -> None:
        """Change a file; where there can be none, only this process knows its content."""
        if name not in self._alone:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            except OSError as error:
                _log.warning("%s: %s; rate limits hold for each process alone", self.folder, error)
            else:
                self._update(handle, change)
                return
        after = change(self._alone.get(name) or None)
        self._alone[name] = after or self._alone.get(name, b"")

    def _update(self, handle: int, change: RegisterChange) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            after = change(os.pread(handle, os.fstat(handle).st_size, 0) or None)
            if after is not None:
                os.pwrite(handle, after, 0)
                os.ftruncate(handle, len(after))
        finally:
            os.close(handle)


@dataclass(eq=False, slots=True)
class RedisRegister:
    """Values of a Redis server, below `rag-pipeline:`."""

    url: str
    portion_seconds: float = 1.0
    _client: Any = field(init=False)

    def __post_init__(self) -> None:
        redis = import_extra("redis", "redis", "redis")
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry

        passing = [redis.ConnectionError, redis.TimeoutError]
        try:
            self._client = redis.Redis.from_url(
                self.url,
                retry=Retry(ExponentialBackoff(cap=2.0, base=0.05), _RETRIES),
                retry_on_error=passing,
                socket_timeout=30.0,
            )
        except ValueError as error:
            raise ConfigError(f"{place(self.url)}: not Redis's address: {error}") from None

    def update(self, name: str, change: RegisterChange) -> None:
        """Change a value in a transaction that is repeated when another has changed it."""
        import redis

        key = f"rag-pipeline:{name}"
        try:
            with self._client.pipeline() as pipe:
                while True:
                    pipe.watch(key)
                    after = change(pipe.get(key))
                    if after is None:
                        return
                    pipe.multi()
                    pipe.set(key, after)
                    try:
                        pipe.execute()
                    except redis.WatchError:
                        continue
                    return
        except redis.RedisError as error:
            raise _unusable(self.url, error) from None


@dataclass(eq=False, slots=True)
class PostgresRegister:
    """Rows of the table `rag_pipeline_registers` of a Postgres database."""

    url: str
    portion_seconds: float = 1.0
    _connection: Any = field(init=False, default=None)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        import_extra("psycopg2", "psycopg2-binary", "postgres")

    def update(self, name: str, change: RegisterChange) -> None:
        """Change a row that is locked meanwhile; connect anew where a connection was lost."""
        import psycopg2

        with self._lock:
            for left in reversed(range(3)):
                try:
                    self._update(name, change)
                except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
                    self._connection = None
                    if not left:
                        raise _unusable(self.url, error) from None
                except psycopg2.Error as error:
                    self._connection = None
                    raise _unusable(self.url, error) from None
                else:
                    return

    def _update(self, name: str, change: RegisterChange) -> None:
        if self._connection is None:
            self._connection = self._connect()
        with self._connection, self._connection.cursor() as cursor:
            # Two that create a row: the second waits here for the first's end, then finds it.
            cursor.execute(
                "INSERT INTO rag_pipeline_registers (name) VALUES (%s) ON CONFLICT DO NOTHING",
                (name,),
            )
            cursor.execute(
                "SELECT content FROM rag_pipeline_registers WHERE name = %s FOR UPDATE", (name,)
            )
            (found,) = cursor.fetchone()
            after = change(None if found is None else bytes(found))
            if after is not None:
                cursor.execute(
                    "UPDATE rag_pipeline_registers SET content = %s WHERE name = %s", (after, name)
                )

    def _connect(self) -> Any:
        import psycopg2

        connection = psycopg2.connect(
            self.url.replace("postgresql+psycopg2://", "postgresql://", 1), connect_timeout=30
        )
        with connection, connection.cursor() as cursor:
            # CREATE IF NOT EXISTS alone fails for one of two that create it at once.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rag_pipeline_registers'))")
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS rag_pipeline_registers "
                "(name TEXT PRIMARY KEY, content BYTEA)"
            )
        return connection


@dataclass(frozen=True, slots=True)
class Scoped:
    """A register's contents of one store, where several stores have the same."""

    register: Register
    scope: str

    @property
    def portion_seconds(self) -> float:
        """Return the register's own."""
        return self.register.portion_seconds

    def update(self, name: str, change: RegisterChange) -> None:
        """Change a content of this store."""
        self.register.update(f"{self.scope}-{name}", change)


_KINDS: dict[str, Callable[[str], Register]] = {
    "redis": RedisRegister,
    "rediss": RedisRegister,
    "postgres": PostgresRegister,
    "postgresql": PostgresRegister,
    "postgresql+psycopg2": PostgresRegister,
}


def deployed_register() -> Register | None:
    """Return the register that RAG_REGISTER names, or else the broker or database of Dagster.

    None where there is neither, or RAG_REGISTER is `none`. Raises ConfigError for an address of
    anything else, MissingExtraError.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if named == _NONE:
            return None
        if urlsplit(named).scheme not in _KINDS:
            raise ConfigError(
                f"{VARIABLE}: {place(named)!r} is no register; name redis://host:6379/0, "
                f"postgresql://user:password@host:5432/database, or {_NONE}"
            )
        return _open(named)
    for variable in (_BROKER, _DATABASE):
        url = os.environ.get(variable, "")
        if urlsplit(url).scheme in _KINDS:
            return _open(url)
    return None


@cache
def _open(url: str) -> Register:
    return _KINDS[urlsplit(url).scheme](url)


@cache
def machine_register(folder: Path) -> Register:
    """Return the register of this machine, in the same folder one object."""
    return FileRegister(folder)


_current: ContextVar[Register | None] = ContextVar("register", default=None)


def sharing_limits(register: Register | None) -> AbstractContextManager[None]:
    """Hold the rate limits of calls inside the block by a register, if there is one."""
    return setting(_current, register or _current.get())


def current_register() -> Register | None:
    """Return the register that calls made now share, None where only this machine makes them."""
    return deployed_register() or _current.get()


def place(url: str) -> str:
    """Return an address without what may be a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _unusable(url: str, error: Exception) -> StoreError:
    message = " ".join(str(error).split())[:300]
    return StoreError(
        f"{place(url)}: rate limits and claims are kept there: {message}; start it, or name "
        f"another by {VARIABLE}"
    )
