import time
from pathlib import Path

import pytest

from rag_pipeline.calls import Database, open_endpoint
from rag_pipeline.calls.rate_limits import RateLimiter, read_duration
from rag_pipeline.errors import StoreError
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_server import serving
from rag_pipeline_tests.testing.servers import free_port


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_limits_nobody_waits(clock):
    limiter = RateLimiter(clock=clock)
    assert [limiter.reserve(10_000) for _ in range(1000)] == [0.0] * 1000


def test_a_minutes_worth_goes_at_once_and_the_rest_in_turn(clock):
    limiter = RateLimiter(requests_per_minute=60, clock=clock)
    assert [limiter.reserve(0) for _ in range(60)] == [0.0] * 60
    assert [limiter.reserve(0) for _ in range(3)] == pytest.approx([1.0, 2.0, 3.0])
    clock.now += 10
    assert limiter.reserve(0) == 0.0, "7 of 10 seconds' worth are left"


def test_tokens_are_limited_and_settled(clock):
    limiter = RateLimiter(tokens_per_minute=6000, clock=clock)
    assert limiter.reserve(6000) == 0.0
    limiter.settle(6000, 1000)
    assert limiter.reserve(5000) == 0.0
    assert limiter.reserve(100) == pytest.approx(1.0)
    assert limiter.reserve(12_000) == pytest.approx(121.0), "more than a minute's worth is served"


def test_limits_are_learned_from_the_headers(clock):
    limiter = RateLimiter(clock=clock)
    limiter.learn(
        {
            "x-ratelimit-limit-requests": "120",
            "x-ratelimit-remaining-requests": "2",
            "x-ratelimit-reset-requests": "59s",
            "x-ratelimit-limit-tokens": "60000",
            "x-ratelimit-remaining-tokens": "59000",
            "x-ratelimit-reset-tokens": "1s",
        }
    )
    assert [limiter.reserve(10) for _ in range(2)] == [0.0, 0.0]
    assert limiter.reserve(10) == pytest.approx(0.5)
    assert limiter.reserve(60_000) == pytest.approx((60_030 - 59_000) / 1000)


def test_a_limit_per_day_is_told_by_its_reset(clock):
    limiter = RateLimiter(clock=clock)
    headers = {"x-ratelimit-limit-requests": "200", "x-ratelimit-remaining-requests": "0"}
    limiter.learn({**headers, "x-ratelimit-reset-requests": "24h0m0s"})
    assert limiter.reserve(0) == pytest.approx(86_400 / 200)


def test_the_settings_bound_what_is_learned(clock):
    limiter = RateLimiter(requests_per_minute=60, clock=clock)
    limiter.learn({"x-ratelimit-limit-requests": "6000"})
    assert [limiter.reserve(0) for _ in range(61)][-1] == pytest.approx(1.0)


def test_remaining_alone_pauses_until_the_reset(clock):
    limiter = RateLimiter(clock=clock)
    limiter.learn({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"})
    assert limiter.reserve(0) == limiter.paused == pytest.approx(7.0)


def test_a_pause_holds_everybody(clock):
    limiter = RateLimiter(clock=clock)
    limiter.pause(3)
    limiter.pause(1)
    assert limiter.reserve(0) == pytest.approx(3.0)
    clock.now += 3
    assert limiter.reserve(0) == limiter.paused == 0.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("20", 20.0),
        ("1s", 1.0),
        ("soon", None),
        ("1s or so", None),
        ("", None),
        (None, None),
        ("-1", None),
        ("nan", None),
    ],
)
def test_durations(text, seconds):
    assert read_duration(text) == seconds


# --- several processes ---


def test_processes_share_what_is_left_and_what_was_learned(
    clock: Clock, database_place: str
) -> None:
    def limiter() -> RateLimiter:
        database = opened(database_place)
        return RateLimiter(60, None, clock, "limit", lambda: database)

    one, two = limiter(), limiter()
    waits = [process.reserve(0) for _ in range(31) for process in (one, two)]
    assert waits == pytest.approx([0.0] * 60 + [1.0, 2.0])
    one.pause(5)
    assert two.reserve(0) == pytest.approx(5.0)
    two.learn({"x-ratelimit-limit-requests": "30"})
    clock.now += 100
    two.reserve(0)
    assert [one.reserve(0) for _ in range(30)][-1] == pytest.approx(2.0)


def test_a_machine_whose_clock_is_behind_gains_nothing_and_makes_nobody_gain(
    clock: Clock, database_place: str
) -> None:
    database = opened(database_place)
    right = RateLimiter(60, None, clock, "limit", lambda: database)
    behind = RateLimiter(60, None, lambda: clock() - 5, "limit", lambda: database)
    waits = [limiter.reserve(0) for _ in range(40) for limiter in (right, behind)]
    assert waits[-1] == pytest.approx(20.0)


def test_a_clock_that_was_set_back_stops_nobody_for_long(clock: Clock, database_place: str) -> None:
    database = opened(database_place)
    limiter = RateLimiter(60, None, clock, "limit", lambda: database)
    assert [limiter.reserve(0) for _ in range(61)][-1] == pytest.approx(1.0)
    clock.now -= 90
    assert limiter.reserve(0) == pytest.approx(2.0)
    clock.now += 3
    assert limiter.reserve(0) == 0.0


def test_without_a_place_for_the_file_each_process_paces_itself(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    database = Database(tmp_path / "file" / "limits.sqlite")
    limiter = RateLimiter(60, None, clock, "limit", lambda: database)
    assert [limiter.reserve(0) for _ in range(61)][-1] == pytest.approx(1.0)
    assert caplog.text.count("each process now has its own rate limits") == 1


def test_a_shared_database_that_is_away_is_an_error(clock: Clock) -> None:
    database = opened(f"postgresql+psycopg2://u@127.0.0.1:{free_port()}/calls")
    with pytest.raises(StoreError, match="RAG_DATABASE_URL"):
        RateLimiter(60, None, clock, "limit", lambda: database).reserve(0)


CHILD = """
import asyncio, http.client, json, sys
from rag_pipeline.calls import Received, open_endpoint
from rag_pipeline.models.providers.openai import ChatModel
url = sys.argv[1]
endpoint = open_endpoint(url, ChatModel(provider="openai", model="m", requests_per_minute=600))
async def attempt():
    connection = http.client.HTTPConnection(url.split("/")[2])
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": []}))
    return Received(connection.getresponse().read())
async def ask():
    await asyncio.gather(*(endpoint.send(attempt, 0) for _ in range(12)))
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(ask())
"""


def test_two_processes_keep_to_the_limit_together(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arrivals: list[float] = []

    def answer(body: object) -> str:
        arrivals.append(time.time())
        return "yes"

    with serving(answer) as server:
        children = [Forked(CHILD, server.url) for _ in range(2)]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        settings = ChatModel(provider="openai", model="m", requests_per_minute=600)
        limiter = open_endpoint(server.url, settings).limiter
        drained = time.time()
        assert [limiter.reserve(0) for _ in range(595)] == [0.0] * 595
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        assert [child.wait() for child in children] == [0, 0]
    # Five were left, and ten a second come in; each process alone had 600.
    assert len(arrivals) == 24
    for n, arrived in enumerate(sorted(arrivals), 1):
        assert arrived - drained >= (n - 5) / 10 - 0.01
