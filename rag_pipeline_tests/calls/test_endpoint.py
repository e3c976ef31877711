import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rag_pipeline.calls.endpoint import Circuit, Endpoint, Received, Sending, asked_again
from rag_pipeline.calls.http_errors import failure_of_status
from rag_pipeline.calls.rate_limits import RateLimiter
from rag_pipeline.errors import CallsStoppedError, PaidInVainError, ProviderError, TransientError

KEY = failure_of_status("m", 401, "no", {})
LIMITED = TransientError("m: slow down", limited=True)
BUSY = TransientError("m: busy (HTTP 500)", paid=False)


class World:
    """An endpoint whose time passes only in its sleeps, and attempts with given outcomes."""

    def __init__(self, patience: float = 300.0, **limits: Any) -> None:
        self.now = 0.0
        self.tries = 0
        self.endpoint = Endpoint(
            "m",
            RateLimiter(clock=self.clock, **limits),
            Circuit("m", patience, self.clock),
            timeout=5.0,
            patience=patience,
            sleep=self.sleep,
        )

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    def send(
        self, outcome: Callable[[int], Received[str] | Exception], tokens: float = 0, probe: int = 0
    ) -> str:
        async def attempt() -> Received[str]:
            self.tries += 1
            made = outcome(self.tries)
            if isinstance(made, Exception):
                raise made
            return made

        return asyncio.run(self.endpoint.send(attempt, tokens, attempt if probe else None))


def test_what_may_pass_is_tried_until_it_does():
    world = World()
    assert world.send(lambda n: BUSY if n < 5 else Received("yes")) == "yes"
    assert world.tries == 5
    assert world.now <= 0.5 + 1 + 2 + 4, "full jitter stays below the doubled waits"


@pytest.mark.parametrize("error", [ProviderError("too long"), CallsStoppedError("wrong key")])
def test_what_will_not_pass_is_tried_once(error):
    world = World()
    with pytest.raises(type(error), match=str(error)):
        world.send(lambda n: error)
    assert (world.tries, world.now) == (1, 0.0)


def test_retry_after_is_obeyed_by_all_calls():
    world = World()
    limited = TransientError("m: slow down (HTTP 429)", 20.0, limited=True)
    assert world.send(lambda n: limited if n == 1 else Received("yes")) == "yes"
    assert 20.0 <= world.now <= 20.5
    world.endpoint.limiter.pause(10)
    world.send(lambda n: Received("yes"))
    assert 30.0 <= world.now <= 31.0


def test_patience_is_bounded_and_others_successes_make_it_this_inputs_failure():
    world = World(patience=30)

    def outcome(n: int) -> Exception:
        world.endpoint.circuit.succeed()  # another call's
        return BUSY

    with pytest.raises(ProviderError, match=r"busy.*given up after \d+ tries") as failure:
        world.send(outcome)
    assert not isinstance(failure.value, CallsStoppedError)
    assert world.now <= 30


@pytest.mark.parametrize(("tries", "probes"), [(1, 0), (1, 1), (2, 1)])
def test_a_wait_beyond_patience_is_begun_only_if_a_probe_is_answered(tries: int, probes: int):
    world = World(patience=30)
    limited = TransientError("m: slow down", 3600.0, limited=True)
    with pytest.raises(ProviderError, match=f"slow down; given up after {tries} tries") as failure:
        world.send(lambda n: Received("yes") if n == tries == 2 else limited, probe=probes)
    assert isinstance(failure.value, CallsStoppedError) == (world.now == 0.0) == (tries == 1)
    assert world.tries == tries + probes


def test_one_input_that_always_fails_is_given_up_and_the_provider_is_not():
    world = World(patience=60)
    for _ in range(2):
        with pytest.raises(ProviderError, match="busy") as failure:
            world.send(lambda n: BUSY)
        assert not isinstance(failure.value, CallsStoppedError)
    assert world.now <= 60 + 8, "the second one is not waited for as long: the provider is in doubt"
    assert world.send(lambda n: Received("yes")) == "yes"


def test_a_provider_that_is_down_stops_the_run_by_the_third_input():
    world = World(patience=60)
    world.send(lambda n: Received("yes"))
    for _ in range(2):
        with pytest.raises(ProviderError):
            world.send(lambda n: BUSY)
    with pytest.raises(CallsStoppedError, match="m: stopped after"):
        world.send(lambda n: BUSY)
    assert world.now <= 60 + 8


def test_an_input_that_failed_before_is_tried_three_times_and_says_nothing_of_the_provider():
    world = World(patience=60)
    for _ in range(5):
        with asked_again(2), pytest.raises(ProviderError, match="given up after 3 tries"):
            world.send(lambda n: BUSY)
    assert world.tries == 15
    assert world.send(lambda n: Received("yes")) == "yes"


def test_an_input_gets_more_time_with_every_run_that_it_failed_in():
    world = World(patience=60)
    world.endpoint.timeout = 0.01

    async def hang() -> Received[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def one() -> None:
        await world.endpoint.send(hang)

    for runs, seconds in ((1, "0.02"), (2, "0.04"), (9, "0.08")):
        with asked_again(runs), pytest.raises(ProviderError, match=f"within {seconds} s"):
            asyncio.run(one())


def test_replies_that_may_be_paid_and_cannot_be_used_are_asked_for_eight_times():
    world = World(patience=3600)
    with pytest.raises(PaidInVainError, match="given up after 8 tries"):
        world.send(lambda n: TransientError("m: the reply is not JSON"))


def many(world: World, outcome: Callable[[], Awaitable[Received[str]]], count: int) -> list[object]:
    async def run() -> list[object]:
        sends = (world.endpoint.send(outcome) for _ in range(count))
        return await asyncio.gather(*sends, return_exceptions=True)

    return asyncio.run(run())


def test_an_open_circuit_lets_one_probe_through_and_closes_on_its_success():
    circuit_clock = World()
    circuit = Circuit("m", 60, circuit_clock.clock)
    circuit.succeed()
    for _ in range(10):
        circuit.fail(BUSY, Sending())
    circuit_clock.now = 61
    with pytest.raises(CallsStoppedError, match="stopped after 11 failures in a row over 61 s"):
        circuit.fail(BUSY, Sending())
    with pytest.raises(CallsStoppedError):
        circuit.check()
    circuit_clock.now = 92
    circuit.check()
    with pytest.raises(CallsStoppedError):
        circuit.check()
    circuit.succeed()
    circuit.check()


def test_an_address_that_never_answered_is_given_up_sooner():
    world = World(patience=300)
    refused = TransientError("m: Connection refused", reached=False, connected=False)
    with pytest.raises(CallsStoppedError, match="Connection refused"):
        world.send(lambda n: refused)
    assert world.now < 120, "of 300: after 15 s it waits for one last attempt, at most"


def test_a_call_that_hangs_is_cut_off_and_made_again():
    world = World()
    world.endpoint.timeout = 0.01

    async def hang() -> Received[str]:
        world.tries += 1
        if world.tries == 1:
            await asyncio.Event().wait()
        return Received("yes")

    assert many(world, hang, 1) == ["yes"]
    assert world.tries == 2


def test_calls_are_paced_by_requests_and_tokens():
    world = World(requests_per_minute=60)

    async def answer() -> Received[str]:
        return Received("yes")

    assert many(world, answer, 120) == ["yes"] * 120
    assert world.now >= 1.0
    paced = World(tokens_per_minute=600)
    paced.send(lambda n: Received("yes", {}, 100), tokens=600)
    paced.send(lambda n: Received("yes", {}, 500), tokens=500)
    assert paced.now == 0.0, "500 of the 600 reserved were given back"
    paced.send(lambda n: Received("yes"), tokens=10)
    assert 1.0 <= paced.now <= 1.25


def test_limits_are_learned_from_replies():
    world = World()
    headers = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}
    world.send(lambda n: Received("yes", headers))
    world.send(lambda n: Received("yes"))
    assert world.now >= 1.0


def test_a_rate_limit_of_an_input_that_failed_before_has_its_whole_patience():
    world = World(patience=30)
    with asked_again(1):
        answer = world.send(lambda n: LIMITED if world.now < 6 else Received("yes"), probe=1)
    assert answer == "yes"
    assert world.now >= 6


def refuse_all(
    world: World, count: int, probed: Callable[[], Received[str] | Exception], failed: int = 0
) -> tuple[int, int, int, bool]:
    """Send inputs at once to a key without rights. Count requests, probes and failed inputs."""
    sent = []

    def attempt(kind: str, outcome: Callable[[], Received[str] | Exception]) -> Any:
        async def attempted() -> Received[str]:
            sent.append(kind)
            await asyncio.sleep(0)
            if isinstance(made := outcome(), Exception):
                raise made
            return made

        return attempted

    async def send_all() -> list[str | BaseException]:
        refused, probe = attempt("input", lambda: KEY), attempt("probe", probed)
        calls = [world.endpoint.send(refused, probe=probe) for _ in range(count)]
        return await asyncio.gather(*calls, return_exceptions=True)

    with asked_again(failed):
        stops = sum(isinstance(error, CallsStoppedError) for error in asyncio.run(send_all()))
    return sent.count("input"), sent.count("probe"), count - stops, stops > 0


def test_inputs_with_a_wrong_key_share_one_probe():
    assert refuse_all(World(), 100, lambda: KEY) == (100, 1, 0, True)


def test_inputs_that_are_refused_after_an_answered_probe_stop_the_run_by_the_twentieth():
    world = World()
    for n in range(20):
        assert refuse_all(world, 1, lambda: Received("yes")) == (1, n == 0, 1, False)
    assert refuse_all(world, 1, lambda: Received("yes")) == (1, 0, 0, True)
    assert refuse_all(world, 300, lambda: Received("yes"), failed=1) == (300, 0, 300, False)


def test_a_probe_in_a_rate_limit_waits_for_the_limit():
    world = World(patience=30)
    found = refuse_all(world, 1, lambda: LIMITED if world.now < 6 else Received("yes"))
    assert found[2:] == (1, False)
    assert world.now >= 6
