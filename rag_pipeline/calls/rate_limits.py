"""Rate limits: how long a call must wait, from the settings and from what the provider tells.

Limits that the settings name hold for all processes, and machines, that share a database.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, select

from rag_pipeline.calls.database import Database
from rag_pipeline.calls.schema import rate_limits
from rag_pipeline.errors import StoreError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Bucket:
    """A token bucket that holds a minute's worth and may go into debt.

    A debt is paid by waiting, so that callers are served in the order in which they came and one
    that asks for more than the bucket holds is served too.
    """

    per_minute: float | None
    level: float = field(init=False)
    updated: float = field(init=False, default=0.0)
    per_second: float = field(init=False)

    def __post_init__(self) -> None:
        self.level = self.per_minute or 0.0
        self.per_second = (self.per_minute or 0.0) / 60.0

    def take(self, amount: float, now: float) -> float:
        """Take an amount; return the seconds to wait before using it."""
        if self.per_minute is None:
            return 0.0
        self._refill(now)
        self.level -= amount
        return max(0.0, -self.level / self.per_second)

    def learn(
        self,
        limit: float | None,
        remaining: float | None,
        reset: float | None,
        allowed: float | None,
        now: float,
    ) -> None:
        """Adopt what a provider says of a limit, never more than the settings have `allowed`.

        `reset` is when its bucket will be full: with a limit per minute within one, so a longer
        time tells of a longer period (a day), and how fast the bucket really fills.
        """
        if limit is not None and limit > 0:
            used = limit - remaining if remaining is not None else 0.0
            slow = reset is not None and reset > 60.0 and used > 0
            rate = used / reset if slow and reset else limit / 60.0
            known = self.per_minute is not None
            self._refill(now)
            self.per_minute = min(limit, allowed) if allowed else limit
            self.per_second = min(rate, allowed / 60.0) if allowed else rate
            self.level = min(self.level, self.per_minute) if known else self.per_minute
        if remaining is not None and self.per_minute is not None:
            self.level = min(self.level, remaining)

    def _refill(self, now: float) -> None:
        if self.per_minute is not None:
            gained = max(0.0, now - self.updated) * self.per_second
            self.level = min(self.per_minute, self.level + gained)
        self.updated = max(self.updated, now)


@dataclass(slots=True)
class RateLimiter:
    """The requests and tokens per minute of one endpoint, shared by the threads of this process.

    With a `database`, shared by all processes and machines that use `name` in it. The clocks of
    machines may differ by some seconds: the fastest counts.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    name: str = ""
    database: Callable[[], Database] | None = None
    _requests: Bucket = field(init=False)
    _tokens: Bucket = field(init=False)
    _paused_until: float = field(init=False, default=0.0)
    _unused: float = field(init=False, default=0.0)
    """Tokens that were reserved and not used, negative if more were used."""
    _headers: list[Mapping[str, str]] = field(init=False, default_factory=list)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._requests = Bucket(self.requests_per_minute)
        self._tokens = Bucket(self.tokens_per_minute)
        self._requests.updated = self._tokens.updated = self.clock()

    @property
    def is_remote(self) -> bool:
        """Return whether a call here may wait for another machine's answer."""
        return self.database is not None and self.database().is_shared

    def reserve(self, tokens: float) -> float:
        """Reserve one request of so many tokens; return the seconds to wait before sending it.

        What replies have told since the last request counts from now on for all processes.
        Raises StoreError where the database can't be reached.
        """

        def work() -> float:
            now = self.clock()
            for headers in self._headers:
                self._learn(headers, now)
            wait = max(self._requests.take(1, now), self._tokens.take(tokens - self._unused, now))
            return max(wait, self._paused_until - now, 0.0)

        with self._lock:
            wait = self._changed(work)
            self._headers, self._unused = [], 0.0
            return wait

    @property
    def paused(self) -> float:
        """Return for how many seconds more the provider asked not to be called."""
        return max(0.0, self._paused_until - self.clock())

    def pause(self, seconds: float) -> None:
        """Let no call start for so many seconds: the provider asked for it."""

        def work() -> None:
            self._paused_until = max(self._paused_until, self.clock() + seconds)

        with self._lock:
            self._changed(work)

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the tokens that a call really used."""
        with self._lock:
            self._unused += reserved - used

    def learn(self, headers: Mapping[str, str]) -> None:
        """Adopt the limits in a reply's `x-ratelimit-*` headers (those of the OpenAI protocol)."""
        if any(name.startswith("x-ratelimit-") for name in headers):
            with self._lock:
                self._headers = [headers]

    def _changed(self, work: Callable[[], T]) -> T:
        """Change the buckets as all processes have left them; `work` may be called twice."""
        if self.database is None:
            return work()
        database, row = self.database(), rate_limits.c

        def transaction(connection: Connection) -> T:
            query = select(row.state).where(row.name == self.name)
            self._load(connection.execute(query).scalar_one_or_none())
            result = work()
            insert = database.insert(rate_limits).values(name=self.name, state=self._state())
            changed = {"state": insert.excluded.state}
            connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=changed))
            return result

        try:
            return database.write(transaction, f"rate limit {self.name}")
        except StoreError as error:
            if database.is_shared:
                raise
            _log.warning("%s; rate limits hold for each process alone", error)
            self.database = None
            return work()

    def _load(self, state: str | None) -> None:
        if state is None:
            return  # nobody was here yet
        found, now = json.loads(state), self.clock()
        for name, bucket in (("requests", self._requests), ("tokens", self._tokens)):
            level, updated, per_minute, per_second = found[name]
            if per_minute:
                bucket.per_minute, bucket.per_second = per_minute, per_second
            # Far ahead, it was written by a clock that has been set back since.
            bucket.level, bucket.updated = level, updated if updated < now + 60.0 else now
        self._paused_until = min(found["paused_until"], now + 3600.0)

    def _state(self) -> str:
        named = (("requests", self._requests), ("tokens", self._tokens))
        buckets = {n: [b.level, b.updated, b.per_minute, b.per_second] for n, b in named}
        return json.dumps({**buckets, "paused_until": self._paused_until})

    def _learn(self, headers: Mapping[str, str], now: float) -> None:
        for what, bucket, allowed in (
            ("requests", self._requests, self.requests_per_minute),
            ("tokens", self._tokens, self.tokens_per_minute),
        ):
            limit = _number(headers.get(f"x-ratelimit-limit-{what}"))
            remaining = _number(headers.get(f"x-ratelimit-remaining-{what}"))
            if limit is None and remaining is None:
                continue
            reset = read_duration(headers.get(f"x-ratelimit-reset-{what}"))
            bucket.learn(limit, remaining, reset, allowed, now)
            if limit is None and remaining == 0 and reset:
                self._paused_until = max(self._paused_until, now + min(reset, 60.0))


def read_duration(value: str | None) -> float | None:
    """Return the seconds of `6m0s`, `12ms` or `1.5`; None of anything else."""
    if not value:
        return None
    value = value.strip()
    number = _number(value)
    if number is not None:
        return number
    parts = _DURATION.findall(value)
    if not parts or "".join(n + unit for n, unit in parts) != value:
        return None
    return sum(float(n) * _SECONDS[unit] for n, unit in parts)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e12 else None
