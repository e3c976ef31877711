"""Rate limits: how long a call must wait, from the settings and from what the provider tells.

Limits that the settings name hold for all processes, and machines, that share a register.
"""

import re
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rag_pipeline.calls.registers import Register

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


_STATE = struct.Struct("9d")
"""Each bucket's level, time, capacity a minute and inflow a second; until when calls are paused."""


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
    """The requests and tokens per minute of one endpoint, shared by this process's threads.

    With a `register`, shared by all processes and machines that keep `name` in it. Where that
    costs time, some seconds' worth is taken at once, and handed out here; what a process has not
    used after a minute is lost. Machines' clocks may differ by some seconds: the fastest counts.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    name: str = ""
    register: Callable[[], Register] | None = None
    _requests: Bucket = field(init=False)
    _tokens: Bucket = field(init=False)
    _paused_until: float = field(init=False, default=0.0)
    _hand: list[float] = field(init=False, default_factory=lambda: [0.0, 0.0])
    """Requests and tokens that were taken and not used; what was used beyond them is negative."""
    _taken: float = field(init=False, default=0.0)
    _ready: float = field(init=False, default=0.0)
    _told: list[Mapping[str, str]] = field(init=False, default_factory=list)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._requests = Bucket(self.requests_per_minute)
        self._tokens = Bucket(self.tokens_per_minute)
        self._requests.updated = self._tokens.updated = self.clock()

    @property
    def waits(self) -> bool:
        """Return whether a call here may wait for another machine's answer."""
        return self.register is not None and self.register().portion_seconds > 0

    def _change(self, work: Callable[[], None]) -> None:
        """Change the buckets as all processes have left them; `work` may be done twice."""
        if self.register is None:
            work()
            return

        def change(content: bytes | None) -> bytes:
            self._load(content or b"")
            work()
            return self._saved()

        self.register().update(self.name, change)

    def _load(self, content: bytes) -> None:
        if len(content) < _STATE.size:
            return  # nobody was here yet
        *buckets, paused_until = _STATE.unpack(content)
        now = self.clock()
        for n, bucket in enumerate((self._requests, self._tokens)):
            level, updated, per_minute, per_second = buckets[4 * n : 4 * n + 4]
            if per_minute > 0:
                bucket.per_minute, bucket.per_second = per_minute, per_second
            # Far ahead, it was written by a clock that has been set back since.
            bucket.level, bucket.updated = level, updated if updated < now + 60.0 else now
        self._paused_until = min(paused_until, now + 3600.0)

    def _saved(self) -> bytes:
        buckets = (self._requests, self._tokens)
        values = [(b.level, b.updated, b.per_minute or 0.0, b.per_second) for b in buckets]
        return _STATE.pack(*values[0], *values[1], self._paused_until)

    def reserve(self, tokens: float) -> float:
        """Reserve one request of so many tokens; return the seconds to wait before sending it.

        Raises StoreError where the register can't be reached.
        """
        with self._lock:
            now = self.clock()
            if now - self._taken > 60.0:
                self._hand = [min(0.0, left) for left in self._hand]
            self._hand = [self._hand[0] - 1, self._hand[1] - tokens]
            if min(self._hand) < 0:
                self._take()
            return max(self._ready - now, self._paused_until - now, 0.0)

    def _take(self) -> None:
        """Take what is short, and the next calls' share where taking it costs time."""
        seconds = self.register().portion_seconds if self.register is not None else 0.0
        short = [max(0.0, -left) for left in self._hand]
        taken = [0.0, 0.0]

        def work() -> None:
            now = self._taken = self.clock()
            for headers in self._told:
                self._learn(headers, now)
            for n, bucket in enumerate((self._requests, self._tokens)):
                taken[n] = max(short[n], seconds * bucket.per_second) if short[n] else 0.0
            wait = max(self._requests.take(taken[0], now), self._tokens.take(taken[1], now))
            self._ready = now + wait if wait > 0 else 0.0

        self._change(work)
        self._told.clear()
        self._hand = [left + more for left, more in zip(self._hand, taken, strict=True)]

    @property
    def paused(self) -> float:
        """Return for how many seconds more the provider asked not to be called."""
        return max(0.0, self._paused_until - self.clock())

    def pause(self, seconds: float) -> None:
        """Let no call start for so long: the provider asked for it."""

        def work() -> None:
            self._paused_until = max(self._paused_until, self.clock() + seconds)

        with self._lock:
            self._change(work)

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the tokens that a call really used."""
        with self._lock:
            self._hand[1] += reserved - used

    def learn(self, headers: Mapping[str, str]) -> None:
        """Adopt the limits in a reply's `x-ratelimit-*` headers (those of the OpenAI protocol).

        Where telling other machines costs time, they learn it when more is taken.
        """
        if not any(name.startswith("x-ratelimit-") for name in headers):
            return
        with self._lock:
            if self.waits:
                self._told = [headers]
            else:
                self._change(lambda: self._learn(headers, self.clock()))

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
