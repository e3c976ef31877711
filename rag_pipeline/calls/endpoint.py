"""One model of one server: its rate limits, its retries and the circuit that stops a run."""

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from rag_pipeline.calls.limits import RateLimiter
from rag_pipeline.calls.sharing import cache_folder
from rag_pipeline.config import RemoteModel
from rag_pipeline.errors import CallsStoppedError, ProviderError, TransientError

T = TypeVar("T")

_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 60.0
_FAILURES_OF_AN_OUTAGE = 5
_NEVER_REACHED_SECONDS = 15.0
_PROBE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What one attempt brought: a value, the reply's headers, and the tokens it used if told."""

    value: T
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: int | None = None


@dataclass(slots=True)
class Circuit:
    """Opens when nothing but failures came back for `patience` seconds.

    A server that was never reached gets 15 seconds: its address is wrong more often than it is
    down. An open circuit lets one call through every 30 seconds; its success closes it.
    """

    name: str
    patience: float
    clock: Callable[[], float] = time.monotonic
    last_success: float = field(init=False, default=-1.0)
    _failures: int = field(init=False, default=0)
    _since: float = field(init=False, default=0.0)
    _reached: bool = field(init=False, default=False)
    _reason: str = field(init=False, default="")
    _next_probe: float | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def check(self) -> None:
        """Raise CallsStoppedError while the circuit is open and it is not time for a probe."""
        with self._lock:
            if self._next_probe is None:
                return
            if self.clock() >= self._next_probe:
                self._next_probe = self.clock() + _PROBE_SECONDS
                return
            raise self._stopped()

    def succeed(self) -> None:
        """Note a reply."""
        with self._lock:
            self._reached, self._failures, self._next_probe = True, 0, None
            self.last_success = self.clock()

    def limited(self) -> None:
        """Note a refusal for the rate: the provider is up, but did not answer."""
        with self._lock:
            self._reached, self._failures, self._next_probe = True, 0, None

    def fail(self, error: TransientError) -> None:
        """Note a failure; raise CallsStoppedError if it is one too many."""
        with self._lock:
            now = self.clock()
            self._reached |= error.reached
            if self._failures == 0:
                self._since = now
            self._failures += 1
            self._reason = str(error)
            lasting = now - self._since
            most = self.patience if self._reached else _NEVER_REACHED_SECONDS
            down = lasting >= min(self.patience, most) and self._failures >= _FAILURES_OF_AN_OUTAGE
            if down or self._next_probe is not None:
                self._next_probe = now + _PROBE_SECONDS
                raise self._stopped()

    def _stopped(self) -> CallsStoppedError:
        seconds = self.clock() - self._since
        return CallsStoppedError(
            f"{self.name}: stopped after {self._failures} failures in a row over {seconds:.0f} s; "
            f"the last: {self._reason}; what was answered is kept, run again when it is back"
        )


@dataclass(slots=True)
class Endpoint:
    """What all calls of this process to one model share."""

    name: str
    limiter: RateLimiter
    circuit: Circuit
    timeout: float
    patience: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def send(self, attempt: Callable[[], Awaitable[Answer[T]]], tokens: float = 0.0) -> T:
        """Return what `attempt` brings, made again as long as it fails in a way that may pass.

        `attempt` makes one request and raises TransientError, CallsStoppedError, or ProviderError
        for this input alone. `tokens` is an estimate for the limit per minute. Waits with
        exponential backoff and full jitter (Brooker, "Exponential Backoff And Jitter", AWS 2015)
        or as long as the provider asks. Raises ProviderError when it has failed for `patience`
        seconds while others succeeded, CallsStoppedError when none did or the circuit opens.
        """
        started: float | None = None
        tries = 0
        while True:
            self.circuit.check()
            await self._wait_for_turn(tokens)
            started = self.circuit.clock() if started is None else started
            try:
                answer = await self._attempt(attempt)
            except TransientError as error:
                self.limiter.settle(tokens, 0.0)
                tries += 1
                await self.sleep(self._pause_after(error, tries, started))
            except CallsStoppedError:
                raise
            except ProviderError:
                self.circuit.succeed()
                raise
            else:
                self.circuit.succeed()
                self.limiter.learn(answer.headers)
                if answer.tokens is not None:
                    self.limiter.settle(tokens, answer.tokens)
                return answer.value

    async def _wait_for_turn(self, tokens: float) -> None:
        wait = self.limiter.reserve(tokens)
        while wait > 0:
            # After a pause everybody's turn has come at once: spread them over a little time.
            await self.sleep(wait + random.uniform(0, min(wait, 1.0) / 4))
            wait = self.limiter.paused

    async def _attempt(self, attempt: Callable[[], Awaitable[Answer[T]]]) -> Answer[T]:
        try:
            async with asyncio.timeout(self.timeout):
                return await attempt()
        except TimeoutError:
            raise TransientError(
                f"{self.name}: no answer within {self.timeout:g} s", reached=False
            ) from None

    def _pause_after(self, error: TransientError, tries: int, started: float) -> float:
        """Return the seconds to wait before the next try; raise when there is none."""
        if error.limited:
            self.circuit.limited()
            if error.retry_after is not None:
                self.limiter.pause(min(error.retry_after, self.patience))
        else:
            self.circuit.fail(error)
        waited = self.circuit.clock() - started
        left = self.patience - waited
        if left < (error.retry_after or _FIRST_BACKOFF / 10):
            message = f"{error}; given up after {tries} tries in {waited:.0f} s"
            if self.circuit.last_success <= started:
                raise CallsStoppedError(f"{message}, and no other call succeeded meanwhile")
            raise ProviderError(message)
        ceiling = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(tries - 1, 16))
        return min(left, (error.retry_after or 0.0) + random.uniform(0, ceiling))


def _open_limiter(name: str, settings: RemoteModel) -> RateLimiter:
    limits = settings.requests_per_minute, settings.tokens_per_minute
    if limits == (None, None):
        return RateLimiter()  # what the provider's headers tell counts all processes anyway
    key = hashlib.sha256(repr((name, settings.api_key_env, limits)).encode()).hexdigest()[:16]
    return RateLimiter(*limits, time.time, cache_folder() / "limits" / key)


@lru_cache(maxsize=64)
def open_endpoint(name: str, settings: RemoteModel) -> Endpoint:
    """Return the endpoint of this name, the same for everybody who asks with equal settings."""
    return Endpoint(
        name,
        _open_limiter(name, settings),
        Circuit(name, settings.patience_seconds),
        settings.timeout_seconds,
        settings.patience_seconds,
    )
