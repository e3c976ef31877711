"""Rate limits, claims and a budget hold over machines: processes with stores of their own."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls.limits import RateLimiter
from rag_pipeline.calls.registers import (
    FileRegister,
    PostgresRegister,
    RedisRegister,
    Register,
    current_register,
    deployed_register,
)
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import SHARED_CALLS, BucketRegister, Store
from rag_pipeline_tests.testing import servers
from rag_pipeline_tests.testing.corpora import write_file
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_server import serving

KINDS = ["file", "redis", "postgres", "bucket"]
OVER_MACHINES = KINDS[1:]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("servers")
    with servers.redis(folder / "redis") as broker, servers.postgres(folder / "pg") as database:
        yield {
            "redis": f"redis://127.0.0.1:{broker.port}/0",
            "postgres": f"postgresql+psycopg2://dagster@127.0.0.1:{database.port}/postgres",
        }


def opened(kind: str, folder: Path, request: pytest.FixtureRequest) -> Register:
    if kind == "file":
        return FileRegister(folder)
    if kind == "bucket":
        return BucketRegister(Store(request.getfixturevalue("bucket"), SHARED_CALLS))
    url = request.getfixturevalue("urls")[kind]
    return RedisRegister(url) if kind == "redis" else PostgresRegister(url)


@pytest.mark.parametrize("kind", KINDS)
def test_changes_by_many_at_once_are_all_there(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    registers = [opened(kind, tmp_path, request) for _ in range(3)]

    def count_up(register: Register) -> None:
        for _ in range(10):
            register.update("counter", lambda found: str(int(found or b"0") + 1).encode())

    threads = [threading.Thread(target=count_up, args=(register,)) for register in registers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: list[bytes | None] = []
    registers[0].update("counter", lambda content: found.append(content))
    assert found == [b"30"]
    registers[1].update("counter", lambda content: found.append(content))
    assert found[-1] == b"30", "None leaves it as it is"


@pytest.mark.parametrize("kind", OVER_MACHINES)
def test_machines_keep_one_limit_and_one_pause(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    now = [1000.0]
    registers = [opened(kind, tmp_path, request) for _ in range(4)]

    def limiter(register: Register) -> RateLimiter:
        return RateLimiter(60, None, lambda: now[0], f"limit-{os.getpid()}", lambda: register)

    machines = [limiter(register) for register in registers]
    waits = sorted(machine.reserve(0) for _ in range(30) for machine in machines)
    # 120 requests at 60 a minute: a minute's worth at once, less what each machine has in hand.
    in_hand = 4 * registers[0].portion_seconds
    assert 60 - in_hand <= waits.count(0.0) <= 60
    assert 60 <= waits[-1] <= 60 + in_hand
    machines[0].pause(500)
    assert all(machine.reserve(0) >= 0 for machine in machines)
    for machine in machines:
        assert max(machine.reserve(0) for _ in range(8)) >= 500


def test_a_machine_whose_clock_is_behind_gains_nothing_and_makes_nobody_gain(
    tmp_path: Path,
) -> None:
    now = [1000.0]
    clocks = [lambda: now[0], lambda: now[0] - 5]
    right, behind = (
        RateLimiter(60, None, clock, "limit", lambda: FileRegister(tmp_path)) for clock in clocks
    )
    waits = [limiter.reserve(0) for _ in range(40) for limiter in (right, behind)]
    assert waits[-1] == pytest.approx(20.0)


MACHINE = """
import json, sys
from rag_pipeline.config import load_config
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.models.chat import Prompt
from rag_pipeline.workspace import Workspace
print("ready", flush=True)
for line in sys.stdin:
    file, chat, first, last = json.loads(line)
    workspace = Workspace(load_config(file))
    try:
        with workspace.charging("contextualized_chunks"):
            replies = workspace.ask(chat)([Prompt(f"{chat} {n}") for n in range(first, last)])
        said = sum(not isinstance(reply, Exception) for reply in replies)
    except RagPipelineError as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
"""


class Machines:
    """Three processes that share a bucket, and what a register holds, but no file."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.children = [
            Forked(
                MACHINE,
                env=os.environ | {"XDG_CACHE_HOME": str(folder / f"machine{n}"), **variables},
            )
            for n in range(3)
        ]

    def __enter__(self) -> "Machines":
        for child in self.children:
            assert child.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *error: object) -> None:
        for child in self.children:
            child.wait(60)

    def ask(self, file: Path, chat: str, spans: list[tuple[int, int]]) -> list[Any]:
        """Let all ask a chat their spans of prompts at once; return what each of them says."""
        for child, span in zip(self.children, spans, strict=True):
            child.stdin.write(json.dumps([str(file), chat, *span]) + "\n")
            child.stdin.flush()
        return [json.loads(child.stdout.readline()) for child in self.children]


@pytest.mark.long
@pytest.mark.parametrize("kind", OVER_MACHINES)
def test_machines_pay_once_keep_the_limit_and_the_budget_together(
    kind: str, tmp_path: Path, bucket: str, request: pytest.FixtureRequest
) -> None:
    arrived: list[tuple[float, str]] = []

    def answer(body: dict[str, Any]) -> str:
        arrived.append((time.time(), body["messages"][-1]["content"]))
        return "word " * 50

    def asked(chat: str) -> list[tuple[float, str]]:
        return sorted(call for call in arrived if call[1].startswith(f"{chat} "))

    with serving(answer) as server:
        chat = {
            "provider": "openai",
            "model": "m",
            "base_url": server.url,
            "max_concurrency": 8,
            "max_output_tokens": 60,
            "price": {"input": 0, "output": 100},
        }
        limited = chat | {"model": "n", "requests_per_minute": 60}
        chats = {"usual": chat, "limited": limited, "budget": chat}
        file = write_file(tmp_path, store=bucket, chats=chats)
        (tmp_path / "poor").mkdir()
        poor = write_file(
            tmp_path / "poor", store=bucket, corpus="poor", chats=chats, budget_usd=0.2
        )
        register = "none" if kind == "bucket" else request.getfixturevalue("urls")[kind]
        with Machines(tmp_path, RAG_REGISTER=register) as machines:
            assert machines.ask(file, "usual", [(0, 60)] * 3) == [60] * 3
            assert Counter(text for _, text in asked("usual")) == {
                f"usual {n}": 1 for n in range(60)
            }

            assert machines.ask(file, "limited", [(0, 21), (21, 42), (42, 63)]) == [21] * 3
            times = [at for at, _ in asked("limited")]
            assert len(times) == 63
            # 60 at once and one a second then; each machine alone would have sent its 21 at once.
            assert all(at - times[0] >= n - 0.5 for n, at in enumerate(times[60:], 1))

            said = machines.ask(poor, "budget", [(0, 40), (40, 80), (80, 120)])
            assert [str(line).partition(":")[0] for line in said] == ["BudgetError"] * 3
    billed, one = len(asked("budget")) * 50 * 100e-6, 50 * 100e-6
    assert billed <= 0.2 + one
    assert billed >= 0.15, "and it was spent, not left over"


# --- which register ---


def test_the_broker_is_taken_before_the_database_and_a_name_before_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("RAG_REGISTER", "RAG_CELERY_BROKER", "DAGSTER_POSTGRES_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert deployed_register() is None
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql+psycopg2://a:b@host/db")
    assert isinstance(deployed_register(), PostgresRegister)
    monkeypatch.setenv("RAG_CELERY_BROKER", "amqp://host")
    assert isinstance(deployed_register(), PostgresRegister)
    monkeypatch.setenv("RAG_CELERY_BROKER", "redis://host:6379/0")
    assert isinstance(deployed_register(), RedisRegister)
    monkeypatch.setenv("RAG_REGISTER", "none")
    assert current_register() is None
    monkeypatch.setenv("RAG_REGISTER", "mysql://user:secret@host/db")
    with pytest.raises(ConfigError, match=r"RAG_REGISTER: 'mysql://host/db' is no register") as e:
        deployed_register()
    assert "secret" not in str(e.value)


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_register_that_is_gone_is_named_without_its_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.registers._RETRIES", 0)
    monkeypatch.setenv("RAG_REGISTER", f"{scheme}://u:secret@127.0.0.1:{servers.free_port()}/0")
    register = deployed_register()
    assert register is not None
    with pytest.raises(StoreError, match="rate limits and claims are kept there") as error:
        register.update("a", lambda found: b"b")
    assert "secret" not in str(error.value)
    assert json.dumps(str(error.value)).count("\\n") == 0
