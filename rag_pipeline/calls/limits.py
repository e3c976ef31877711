"""Rate limits: how long a call must wait, from the settings and from what the provider tells.

Limits that the settings name hold for all processes of a machine and user together: their buckets
are in a file of a few bytes that is locked while it is read and written.
"""

import fcntl
import logging
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


_STATE = struct.Struct("9d")
"""Each bucket's level, time, capacity a minute and inflow a second; until when calls are paused."""

_log = logging.getLogger(__name__)


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

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used; a negative amount is taken after the fact."""
        if self.per_minute is not None:
            self.level = min(self.per_minute, self.level + amount)

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
            gained = (now - self.updated) * self.per_second
            self.level = min(self.per_minute, self.level + gained)
        self.updated = now


@dataclass(slots=True)
class RateLimiter:
    """The requests and tokens per minute of one endpoint, shared by this process's threads.

    With a `file`, shared by all processes that name it; their clocks must agree.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    file: Path | None = None
    _handle: int | None = field(init=False, default=None)
    _requests: Bucket = field(init=False)
    _tokens: Bucket = field(init=False)
    _paused_until: float = field(init=False, default=0.0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._requests = Bucket(self.requests_per_minute)
        self._tokens = Bucket(self.tokens_per_minute)
        self._requests.updated = self._tokens.updated = self.clock()
        if self.file is None:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log.warning("%s: %s; rate limits hold for each process alone", self.file, error)

    def __del__(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    @contextmanager
    def _state(self) -> Iterator[None]:
        """Hold the buckets as all threads and processes have left them, and leave them changed."""
        with self._lock:
            if self._handle is None:
                yield
                return
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                self._load(os.pread(self._handle, _STATE.size, 0))
                yield
                os.pwrite(self._handle, self._saved(), 0)
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _load(self, content: bytes) -> None:
        if len(content) < _STATE.size:
            return  # nobody was here yet
        *buckets, paused_until = _STATE.unpack(content)
        now = self.clock()
        for n, bucket in enumerate((self._requests, self._tokens)):
            level, updated, per_minute, per_second = buckets[4 * n : 4 * n + 4]
            if per_minute > 0:
                bucket.per_minute, bucket.per_second = per_minute, per_second
            bucket.level, bucket.updated = level, min(updated, now)
        # Written by a clock that has been set back since, it would hold for ever.
        self._paused_until = min(paused_until, now + 3600.0)

    def _saved(self) -> bytes:
        buckets = (self._requests, self._tokens)
        values = [(b.level, b.updated, b.per_minute or 0.0, b.per_second) for b in buckets]
        return _STATE.pack(*values[0], *values[1], self._paused_until)

    def reserve(self, tokens: float) -> float:
        """Reserve one request of so many tokens; return the seconds to wait before sending it."""
        with self._state():
            now = self.clock()
            waits = (self._requests.take(1, now), self._tokens.take(tokens, now))
            return max(*waits, self._paused_until - now, 0.0)

    @property
    def paused(self) -> float:
        """Return for how many seconds more the provider asked not to be called."""
        return max(0.0, self._paused_until - self.clock())

    def pause(self, seconds: float) -> None:
        """Let no call start for so long: the provider asked for it."""
        with self._state():
            self._paused_until = max(self._paused_until, self.clock() + seconds)

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the tokens that a call really used."""
        with self._state():
            self._tokens.give_back(reserved - used)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Adopt the limits in a reply's `x-ratelimit-*` headers (those of the OpenAI protocol)."""
        for what, bucket, allowed in (
            ("requests", self._requests, self.requests_per_minute),
            ("tokens", self._tokens, self.tokens_per_minute),
        ):
            limit = _number(headers.get(f"x-ratelimit-limit-{what}"))
            remaining = _number(headers.get(f"x-ratelimit-remaining-{what}"))
            if limit is None and remaining is None:
                continue
            reset = read_duration(headers.get(f"x-ratelimit-reset-{what}"))
            with self._state():
                bucket.learn(limit, remaining, reset, allowed, self.clock())
            if limit is None and remaining == 0 and reset:
                self.pause(min(reset, 60.0))


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
