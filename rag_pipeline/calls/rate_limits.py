"""Compute how long a call must wait, from settings and from the headers of replies.

Limits in the settings hold for all processes and machines that share a database.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from rag_pipeline.calls import sql
from rag_pipeline.calls.database import Database
from rag_pipeline.errors import StoreError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Bucket:
    """A token bucket that holds the amount of one minute. Its level may be negative.

    A caller waits until the level is 0 again. So calls start in the order of their requests. A
    request may exceed one minute's amount.
    """

    allowed: float | None
    """The limit per minute in the settings, or None without a limit."""
    per_minute: float | None = None
    per_second: float = 0.0
    level: float = 0.0
    updated: float = 0.0

    def __post_init__(self) -> None:
        if self.per_minute is None:
            self.per_minute, self.level = self.allowed, self.allowed or 0.0
            self.per_second = self.level / 60.0

    def take(self, amount: float, now: float) -> float:
        """Take an amount, and return the seconds to wait before its use."""
        if self.per_minute is None:
            return 0.0
        self._refill(now)
        self.level -= amount
        return max(0.0, -self.level / self.per_second)

    def learn(
        self, limit: float | None, remaining: float | None, reset: float | None, now: float
    ) -> None:
        """Adopt the limit of a provider, but never more than the settings allow.

        `remaining` is the rest of the provider's bucket. `reset` is the number of seconds until
        this bucket is full. A value is None if the reply lacks it. A bucket for a minute is full
        after 60 seconds. So a longer `reset` shows a longer period, such as a day, and its rate.
        """
        if limit is not None and limit > 0:
            used = limit - remaining if remaining is not None else 0.0
            slow = reset is not None and reset > 60.0 and used > 0
            rate = used / reset if slow and reset else limit / 60.0
            known = self.per_minute is not None
            self._refill(now)
            self.per_minute = min(limit, self.allowed) if self.allowed else limit
            self.per_second = min(rate, self.allowed / 60.0) if self.allowed else rate
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
    """The limits of requests and tokens per minute to one endpoint, for all threads of a process.

    If `database` is set, all processes and machines that use the same `name` share the limits. If
    the clocks of machines differ by some seconds, the fastest clock counts.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    name: str = ""
    database: Callable[[], Database] | None = None
    _buckets: dict[str, Bucket] = field(init=False)
    _paused_until: float = field(init=False, default=0.0)
    _unused: float = field(init=False, default=0.0)
    """Reserved but unused tokens. The number is negative if more tokens were used."""
    _headers: Mapping[str, str] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        limits = {"requests": self.requests_per_minute, "tokens": self.tokens_per_minute}
        self._buckets = {n: Bucket(limit, updated=self.clock()) for n, limit in limits.items()}

    @property
    def is_remote(self) -> bool:
        """Return whether a reservation needs a database that machines share."""
        return self.database is not None and self.database().is_shared

    def reserve(self, tokens: float) -> float:
        """Reserve one request of some tokens, and return the seconds to wait before sending it.

        Also pass the limits in the last reply of this process to all processes. Raise StoreError if
        the database can't be reached.
        """

        def work() -> float:
            now = self.clock()
            self._learn(now)
            amounts = {"requests": 1.0, "tokens": tokens - self._unused}
            waits = [self._buckets[name].take(amount, now) for name, amount in amounts.items()]
            return max(*waits, self._paused_until - now, 0.0)

        with self._lock:
            wait = self._changed(work)
            self._headers, self._unused = {}, 0.0
            return wait

    @property
    def paused(self) -> float:
        """Return the remaining seconds of the pause that the provider asked for."""
        return max(0.0, self._paused_until - self.clock())

    def pause(self, seconds: float) -> None:
        """Start no call for this number of seconds, as the provider asked."""

        def work() -> None:
            self._paused_until = max(self._paused_until, self.clock() + seconds)

        with self._lock:
            self._changed(work)

    def settle(self, reserved: float, used: float) -> None:
        """Replace the reserved tokens of a call by the used tokens."""
        with self._lock:
            self._unused += reserved - used

    def learn(self, headers: Mapping[str, str]) -> None:
        """Keep a reply's `x-ratelimit-*` headers (OpenAI protocol) for the next `reserve`."""
        if any(name.startswith("x-ratelimit-") for name in headers):
            with self._lock:
                self._headers = headers

    def _changed(self, work: Callable[[], T]) -> T:
        """Call `work` on the state that all processes share. `work` may run twice."""
        if self.database is None:
            return work()
        database = self.database()

        def transaction(connection: "sql.Connection") -> T:
            query = sql.select(sql.rate_limits.c.state).where(sql.rate_limits.c.name == self.name)
            self._load(connection.execute(query).scalar_one_or_none())
            result = work()
            buckets = {name: asdict(bucket) for name, bucket in self._buckets.items()}
            state = json.dumps({"buckets": buckets, "paused_until": self._paused_until})
            row = {"name": self.name, "state": state}
            connection.execute(database.upsert(sql.rate_limits, "state"), row)
            return result

        try:
            return database.write(transaction, f"rate limit {self.name}")
        except StoreError as error:
            if database.is_shared:
                raise
            _log.warning("%s; each process now has its own rate limits", error)
            self.database = None
            return work()

    def _load(self, state: str | None) -> None:
        if state is None:
            return
        found, now = json.loads(state), self.clock()
        self._buckets = {name: Bucket(**values) for name, values in found["buckets"].items()}
        for bucket in self._buckets.values():
            # A time in the far future is from a clock that was set back later.
            bucket.updated = bucket.updated if bucket.updated < now + 60.0 else now
        self._paused_until = min(found["paused_until"], now + 3600.0)

    def _learn(self, now: float) -> None:
        for name, bucket in self._buckets.items():
            limit = _number(self._headers.get(f"x-ratelimit-limit-{name}"))
            remaining = _number(self._headers.get(f"x-ratelimit-remaining-{name}"))
            if limit is None and remaining is None:
                continue
            reset = read_duration(self._headers.get(f"x-ratelimit-reset-{name}"))
            bucket.learn(limit, remaining, reset, now)
            if limit is None and remaining == 0 and reset:
                self._paused_until = max(self._paused_until, now + min(reset, 60.0))


def read_duration(value: str | None) -> float | None:
    """Return the seconds of `6m0s`, `12ms` or `1.5`, or None for other texts."""
    value = (value or "").strip()
    if (number := _number(value)) is not None:
        return number
    found = _DURATION.findall(value)
    if not found or "".join(n + unit for n, unit in found) != value:
        return None
    return sum(float(n) * _SECONDS[unit] for n, unit in found)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e12 else None
