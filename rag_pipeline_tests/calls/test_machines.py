"""Machines that share a bucket and a Postgres database, each with a cache folder of its own."""

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls import processes
from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.models.chat import Prompt, Reply
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import servers
from rag_pipeline_tests.testing.corpora import write_file
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_server import ModelServer, serving

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
    """Processes that share a bucket and a database, but no file."""

    def __init__(self, folder: Path, count: int, url: str) -> None:
        self.children = [
            Forked(
                MACHINE,
                env=os.environ
                | {"XDG_CACHE_HOME": str(folder / f"machine{n}"), "RAG_DATABASE_URL": url},
            )
            for n in range(count)
        ]

    def __enter__(self) -> "Machines":
        for child in self.children:
            assert child.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *error: object) -> None:
        for child in self.children:
            child.wait(300)

    def ask(self, file: Path, chat: str, spans: list[tuple[int, int]]) -> list[Any]:
        """Let all ask a chat their spans of prompts at once; return what each of them says."""
        for child, span in zip(self.children, spans, strict=True):
            child.stdin.write(json.dumps([str(file), chat, *span]) + "\n")
            child.stdin.flush()
        return [json.loads(child.stdout.readline()) for child in self.children]


def chat_of(server: ModelServer, **changes: Any) -> dict[str, Any]:
    usual = {
        "provider": "openai", "model": "m", "base_url": server.url, "max_concurrency": 8,
        "max_output_tokens": 60, "price": {"input": 0, "output": 100},
    }  # fmt: skip
    return usual | changes


@pytest.mark.long
def test_eight_machines_pay_once_keep_the_limit_and_the_budget_together(
    tmp_path: Path, bucket: str, postgres_url: str
) -> None:
    arrived: list[tuple[float, str]] = []

    def answer(body: dict[str, Any]) -> str:
        arrived.append((time.time(), body["messages"][-1]["content"]))
        return "word " * 50

    def asked(chat: str) -> list[tuple[float, str]]:
        return sorted(call for call in arrived if call[1].startswith(f"{chat} "))

    with serving(answer) as server:
        chats = {
            "usual": chat_of(server), "budget": chat_of(server),
            "limited": chat_of(server, model="n", requests_per_minute=60),
        }  # fmt: skip
        file = write_file(tmp_path, store=bucket, chats=chats)
        (tmp_path / "poor").mkdir()
        poor = write_file(
            tmp_path / "poor", store=bucket, corpus="poor", chats=chats, budget_usd=0.2
        )
        with Machines(tmp_path, 8, postgres_url) as machines:
            assert machines.ask(file, "usual", [(0, 60)] * 8) == [60] * 8
            assert Counter(text for _, text in asked("usual")) == {
                f"usual {n}": 1 for n in range(60)
            }

            begun = time.time()
            assert machines.ask(file, "limited", [(8 * n, 8 * n + 8) for n in range(8)]) == [8] * 8
            times = [at for at, _ in asked("limited")]
            assert len(times) == 64
            # 60 at once and one a second then; each machine alone would have sent its 8 at once.
            # A busy machine delays a call, and lets none arrive before its time.
            assert all(at - begun >= n - 0.1 for n, at in enumerate(times[60:], 1))

            said = machines.ask(poor, "budget", [(20 * n, 20 * n + 20) for n in range(8)])
            assert "BudgetError" in {str(line).partition(":")[0] for line in said}
    billed, one = len(asked("budget")) * 50 * 100e-6, 50 * 100e-6
    assert billed <= 0.2 + one
    assert billed >= 0.2 - 60 * 100e-6, "and it was spent, not left over"


def test_a_second_machine_asks_nothing_and_sees_the_charges_of_the_first(
    tmp_path: Path, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_DATABASE_URL", postgres_url)
    prompts = [Prompt(f"p{n}") for n in range(40)]

    def machine(name: str) -> Workspace:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return Workspace(load_config(file))

    with serving(lambda body: "yes") as server:
        file = write_file(tmp_path, store=bucket, chats={"m": chat_of(server)})
        one, two = machine("one"), machine("two")
        with one.charging("answers"):
            first = one.ask("m")(prompts)
        with two.charging("answers") as costs:
            again = two.ask("m")(prompts)
        assert len(server.requests) == 40
    assert again == first
    assert all(isinstance(reply, Reply) for reply in again)
    assert costs.calls == 0
    assert list(one.ledger.charges()) == list(two.ledger.charges())
    assert len(list(two.ledger.charges())) == 40


def test_what_a_killed_machine_was_asking_is_asked_by_another(
    tmp_path: Path, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_machine", lambda: "this one")
    monkeypatch.setattr(processes, "EXPIRY_SECONDS", 2.0)
    monkeypatch.setenv("RAG_DATABASE_URL", postgres_url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    asked: Counter[str] = Counter()
    over = threading.Event()

    def answer(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        asked[text] += 1
        if text == "m 3" and asked[text] == 1:
            killed.children[0].kill()
            over.wait()
        return "yes"

    with serving(answer) as server, Machines(tmp_path, 1, postgres_url) as killed:
        file = write_file(tmp_path, store=bucket, chats={"m": chat_of(server, max_concurrency=1)})
        killed.children[0].stdin.write(json.dumps([str(file), "m", 0, 10]) + "\n")
        killed.children[0].stdin.flush()
        assert killed.children[0].stdout.readline() == ""
        workspace = Workspace(load_config(file))
        with workspace.charging("answers"):
            replies = workspace.ask("m")([Prompt(f"m {n}") for n in range(10)])
        over.set()
    assert all(isinstance(reply, Reply) for reply in replies)
    assert asked == {f"m {n}": 2 if n == 3 else 1 for n in range(10)}


def test_without_its_database_nothing_is_asked(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://u:secret@127.0.0.1:{servers.free_port()}/calls"
    monkeypatch.setenv("RAG_DATABASE_URL", url)
    with serving() as server:
        workspace = Workspace(
            load_config(write_file(tmp_path, store=bucket, chats={"m": chat_of(server)}))
        )
        with pytest.raises(StoreError, match="or change RAG_DATABASE_URL") as error:
            workspace.ask("m")([Prompt("p")])
        assert "secret" not in str(error.value)
        assert not server.requests


def test_machines_without_a_common_database_have_their_own_answers(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda body: "yes") as server:
        file = write_file(tmp_path, store=bucket, chats={"m": chat_of(server)})
        for name in ("one", "two", "one"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
            Workspace(load_config(file)).ask("m")([Prompt("p")])
        assert len(server.requests) == 2
