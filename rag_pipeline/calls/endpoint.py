"""Send calls to one model of one server, with rate limits, retries and a circuit breaker."""

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Generic, TypeVar

from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.database import cache_folder, limits_database, shared_database
from rag_pipeline.calls.rate_limits import RateLimiter
from rag_pipeline.config import RemoteModel
from rag_pipeline.errors import (
    CallsStoppedError,
    GivenUpError,
    PaidInVainError,
    ProviderError,
    RefusedError,
    TransientError,
)

T = TypeVar("T")

_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 60.0
_FAILURES_OF_AN_OUTAGE = 5
_INPUTS_OF_AN_OUTAGE = 3
"""Minimum number of distinct failed inputs that show a fault of the provider."""
_REFUSED_IN_A_ROW = 20
"""Number of consecutive refused inputs that stop a run with accepted inputs."""
_TRIES_IN_DOUBT = 5
_TRIES_OF_A_BAD_INPUT = 3
_MOST_DOUBLINGS = 3
LONGEST_TIMEOUT = 2**_MOST_DOUBLINGS
"""Longest timeout of an input that failed in earlier runs, as a multiple of the usual timeout."""
_MOST_PAID_IN_VAIN = 8
"""Maximum number of late or unusable replies that are paid for one input."""
_NEVER_REACHED_SECONDS = 15.0
_PROBE_SECONDS = 30.0
PROBE = "Answer with the word: yes"
"""A harmless input. If a model answers this input, failures of other inputs do not stop a run."""
TRIES_OF_A_PROBE = 5
"""Maximum number of tries of a probe. A temporary failure is tried again."""


@dataclass(frozen=True, slots=True)
class Received(Generic[T]):
    """The result of one attempt: a value, the headers, and the reply's tokens (None if unknown)."""

    value: T
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: int | None = None


Attempt = Callable[[], Awaitable[Received[T]]]
_failed_before: ContextVar[int] = ContextVar("failed_before", default=0)


def asked_again(failures: int) -> AbstractContextManager[None]:
    """Set the number of earlier runs in which the input of the calls inside the block failed.

    Such an input is tried three times at most. Its timeout doubles with each failed run, up to
    eight times the usual timeout. Its failures do not count against the provider.
    """
    return setting(_failed_before, failures)


@dataclass(eq=False, slots=True)
class Sending:
    """The state of one input in flight, or of the inputs of one request.

    An input is `suspect` if it failed in an earlier run, or while other inputs were answered. The
    failures of a suspect input do not count against the provider. If it is also `isolated` from
    other inputs, it is tried three times at most. If `once` is set, a request that reached the
    server is not repeated. It is `probed` if a probe was answered after its failure.
    """

    failed_before: int = 0
    started: float | None = None
    tries: int = 0
    paid_in_vain: int = 0
    suspect: bool = False
    once: bool = False
    isolated: bool = False
    probed: bool = False


_sending: ContextVar[Sending | None] = ContextVar("sending", default=None)


def sent_as(sending: Sending) -> AbstractContextManager[None]:
    """Count the attempts of the request inside the block in `sending`."""
    return setting(_sending, sending)


@dataclass(slots=True)
class Circuit:
    """A circuit breaker: it stops all calls (opens) while a provider seems to be down.

    The circuit opens if at least three inputs failed at least five times in all, over `patience`
    seconds without an answer. If the server was never reached, 15 seconds are enough. If the
    connection is refused, one input is enough, because the address is probably wrong. An open
    circuit lets one call through every 30 seconds. If this call succeeds, the circuit closes.
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
    _failing: set[Sending] = field(init=False, default_factory=set)
    _refused: float = field(init=False, default=0)
    _accepted: bool = field(init=False, default=False)
    _probed: bool = field(init=False, default=False)
    _lock: threading.RLock = field(init=False, default_factory=threading.RLock)

    def check(self) -> None:
        """Raise CallsStoppedError while the circuit is open, except for one call per 30 seconds."""
        with self._lock:
            if self._next_probe is None:
                return
            if self.clock() >= self._next_probe:
                self._next_probe = self.clock() + _PROBE_SECONDS
                return
            raise self._stopped()

    def succeed(self) -> None:
        """Record a reply. The provider is up, so the inputs that are failing become suspect."""
        with self._lock:
            for sending in self._failing:
                sending.suspect = True
            self._close()
            self.last_success = self.clock()

    def accepted(self, probe: bool = False) -> None:
        """Record that the provider accepted an input. This shows that the settings are right."""
        with self._lock:
            self._refused, self._accepted, self._probed = 0, True, probe or self._probed

    def refuse(self, error: RefusedError, sending: Sending) -> bool:
        """Record a refusal. Return whether all calls stop unless a probe succeeds.

        A probe is needed if the error concerns every input, or after three refused inputs (twenty
        after an accepted one). After an answered probe, twenty such errors in a row raise `error`.
        """
        if sending.probed:
            return False
        with self._lock:
            if error.inputs == inf and self._probed:
                sending.probed = True
                self._refused += not sending.failed_before
                if self._refused < _REFUSED_IN_A_ROW:
                    return False
                self._refused = 0
                raise error
            if error.inputs == inf or not sending.failed_before:
                self._refused += error.inputs or not sending.once
            return self._refused >= (_REFUSED_IN_A_ROW if self._accepted else _INPUTS_OF_AN_OUTAGE)

    def refused(self, error: RefusedError) -> ProviderError:
        """Return the error of an input that is refused while other inputs may be accepted."""
        found = ProviderError(error.said if self._accepted else str(error))
        found.status = error.status
        return found

    def limited(self) -> None:
        """Record a refusal because of a rate limit. It shows that the provider is up."""
        with self._lock:
            self._close()

    def fail(self, error: TransientError, sending: Sending) -> None:
        """Record a failure. Raise CallsStoppedError if it opens the circuit."""
        with self._lock:
            now = self.clock()
            self._reached |= error.reached
            self._reason = str(error)
            if self._next_probe is not None:
                self._failures += 1
                self._next_probe = now + _PROBE_SECONDS
                raise self._stopped()
            if sending.suspect and error.connected:
                return
            if self._failures == 0:
                self._since = now
            self._failures += 1
            self._failing.add(sending)
            most = self.patience if self._reached else _NEVER_REACHED_SECONDS
            lasting = now - self._since >= min(self.patience, most)
            if lasting and self._failures >= _FAILURES_OF_AN_OUTAGE and self.blames(error):
                self._next_probe = now + _PROBE_SECONDS
                raise self._stopped()

    def blames(self, error: TransientError) -> bool:
        """Return whether a failure is a fault of the provider, not of the input."""
        with self._lock:
            return not error.connected or len(self._failing) >= _INPUTS_OF_AN_OUTAGE

    @property
    def in_doubt(self) -> bool:
        """Return whether inputs failed for `patience` seconds, but too few to open the circuit."""
        with self._lock:
            return bool(self._failing) and self.clock() - self._since >= self.patience

    def _close(self) -> None:
        self._reached, self._failures, self._next_probe = True, 0, None
        self._failing.clear()

    def _stopped(self) -> CallsStoppedError:
        seconds = self.clock() - self._since
        return CallsStoppedError(
            f"{self.name}: stopped after {self._failures} failures in a row over {seconds:.0f} s. "
            f"The last failure: {self._reason}. All answers are kept. Run again when the provider "
            f"is up"
        )


@dataclass(slots=True)
class Endpoint:
    """The state that all calls of this process to one model share."""

    name: str
    limiter: RateLimiter
    circuit: Circuit
    timeout: float
    patience: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _probing: dict[asyncio.AbstractEventLoop, asyncio.Task[bool]] = field(default_factory=dict)

    async def send(
        self, attempt: Attempt[T], tokens: float = 0.0, probe: Attempt[T] | None = None
    ) -> T:
        """Return the result of `attempt`, which is repeated while its failure may be temporary.

        `attempt` makes one request. It raises TransientError if a repetition may help,
        CallsStoppedError if no call can succeed, and ProviderError if this input failed for good.
        `tokens` is the estimated tokens of the request, for the limit per minute. The pause between
        two tries is the provider's pause plus an exponential backoff with full jitter. Source:
        Brooker, "Exponential Backoff And Jitter", AWS 2015. Before failures stop all calls, `probe`
        sends `PROBE`. If the probe succeeds, only the failed inputs fail.

        Raise ProviderError if this input failed for `patience` seconds, and PaidInVainError after
        eight unusable replies that may be charged. Raise CallsStoppedError when the circuit opens:
        see `Circuit`.
        """
        failed = _failed_before.get()
        sending = _sending.get() or Sending(failed, suspect=failed > 0)
        while True:
            self.circuit.check()
            await self._wait_for_turn(tokens)
            sending.started = self.circuit.clock() if sending.started is None else sending.started
            try:
                answer = await self._attempt(attempt, sending)
            except TransientError as error:
                self.limiter.settle(tokens, 0.0)
                sending.tries += 1
                sending.paid_in_vain += error.paid
                reached = error.connected and (sending.probed or not error.limited)
                last = sending.once and reached
                try:
                    pause = self._pause_after(error, sending, reached)
                except CallsStoppedError:
                    if not error.connected or not await self._works(probe, sending):
                        raise
                    pause = 0.0
                await self.sleep(pause)
                if last:
                    raise GivenUpError(str(error)) from None
            except RefusedError as error:
                self.circuit.succeed()
                if self.circuit.refuse(error, sending) and not await self._works(probe, sending):
                    raise
                raise self.circuit.refused(error) from None
            except ProviderError as error:
                if not isinstance(error, CallsStoppedError):
                    self.circuit.succeed()
                raise
            else:
                self.circuit.succeed()
                self.circuit.accepted()
                self.limiter.learn(answer.headers)
                if answer.tokens is not None:
                    self.limiter.settle(tokens, answer.tokens)
                return answer.value

    async def _works(self, probe: Attempt[T] | None, sending: Sending) -> bool:
        """Return whether the probe succeeds. Calls that need a probe at the same time share it."""
        if probe is None:
            return False
        loop = asyncio.get_running_loop()
        if loop not in self._probing:
            self._probing[loop] = loop.create_task(self._answers(probe, sending))
            self._probing[loop].add_done_callback(lambda _: self._probing.pop(loop))
        works = await asyncio.shield(self._probing[loop])
        sending.suspect = sending.probed = works
        return works

    async def _answers(self, probe: Attempt[T], sending: Sending, tries: int = 1) -> bool:
        try:
            await self._attempt(probe, Sending())
        except TransientError as error:
            left = max((sending.started or 0.0) + self.patience - self.circuit.clock(), 0.0)
            exhausted = left < (error.retry_after or _FIRST_BACKOFF / 10)
            if exhausted if error.limited else tries == TRIES_OF_A_PROBE:
                return False
            backoff = random.uniform(0, _FIRST_BACKOFF * 2 ** min(tries, 7))
            await self.sleep(min(left, (error.retry_after or 0.0) + backoff))
            await self._wait_for_turn(0.0)
            return await self._answers(probe, sending, tries + 1)
        except ProviderError:
            return False
        self.circuit.succeed()
        self.circuit.accepted(probe=True)
        return True

    async def _wait_for_turn(self, tokens: float) -> None:
        reserve = self.limiter.reserve
        wait = (
            await asyncio.to_thread(reserve, tokens) if self.limiter.is_remote else reserve(tokens)
        )
        while wait > 0:
            # Many calls may start after a pause, so spread them over a short time.
            await self.sleep(wait + random.uniform(0, min(wait, 1.0) / 4))
            wait = self.limiter.paused

    async def _attempt(self, attempt: Attempt[T], sending: Sending) -> Received[T]:
        timeout = self.timeout * 2 ** min(sending.failed_before, _MOST_DOUBLINGS)
        try:
            async with asyncio.timeout(timeout):
                return await attempt()
        except TimeoutError:
            raise TransientError(
                f"{self.name}: no answer within {timeout:g} s", reached=False
            ) from None

    def _pause_after(self, error: TransientError, sending: Sending, reached: bool) -> float:
        """Return the seconds to wait after a failure, or give up on the input with an error."""
        if error.limited:
            self.circuit.limited()
            if error.retry_after is not None:
                self.limiter.pause(min(error.retry_after, self.patience))
        else:
            self.circuit.fail(error, sending)
        assert sending.started is not None
        waited = self.circuit.clock() - sending.started
        left = max(self.patience - waited, 0.0)
        exhausted = left < (error.retry_after or _FIRST_BACKOFF / 10)
        in_vain = sending.paid_in_vain >= _MOST_PAID_IN_VAIN
        tried = reached and sending.tries >= self._most_tries(sending)
        if not (sending.once and reached) and (in_vain or exhausted or tried):
            message = f"{error}; given up after {sending.tries} tries in {waited:.0f} s"
            if error.retry_after is not None and error.retry_after > left:
                message += f"; the provider asks for a pause of {error.retry_after:,.0f} s"
            answered = sending.probed or self.circuit.last_success > sending.started
            if not answered and (error.limited or self.circuit.blames(error)):
                raise CallsStoppedError(f"{message}, and no other call succeeded in this time")
            raise PaidInVainError(message) if in_vain else GivenUpError(message)
        ceiling = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(sending.tries - 1, 16))
        return min(left, (error.retry_after or 0.0) + random.uniform(0, ceiling))

    def _most_tries(self, sending: Sending) -> float:
        if sending.failed_before or (sending.isolated and sending.suspect):
            return _TRIES_OF_A_BAD_INPUT
        return _TRIES_IN_DOUBT if self.circuit.in_doubt else inf


def open_endpoint(name: str, settings: RemoteModel) -> Endpoint:
    """Return the endpoint that all callers with this name and these connection settings share.

    Connection settings are the fields of `RemoteModel`, except the concurrency, the cache identity
    and the price.
    """
    other = {"max_concurrency", "cache_identity", "price"}
    same = settings.model_dump(include=set(RemoteModel.model_fields), exclude=other)
    return _endpoint(name, RemoteModel(**same))


@lru_cache(maxsize=64)
def _endpoint(name: str, settings: RemoteModel) -> Endpoint:
    limits = settings.requests_per_minute, settings.tokens_per_minute
    limiter = RateLimiter()  # the headers of the provider count all processes
    if limits != (None, None):
        key = hashlib.sha256(repr((name, settings.api_key_env, limits)).encode()).hexdigest()[:16]
        folder = cache_folder()
        limiter = RateLimiter(
            *limits, time.time, key, lambda: shared_database() or limits_database(folder)
        )
    patience = settings.patience_seconds
    return Endpoint(name, limiter, Circuit(name, patience), settings.timeout_seconds, patience)
