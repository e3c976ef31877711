"""Machines that share a bucket and nothing else: each has a cache folder of its own."""

import hashlib
import json
import logging
import signal
import time
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_pipeline.calls import CallCache, sharing
from rag_pipeline.calls.costs import ChargedTokens, Ledger, charging
from rag_pipeline.calls.sharing import Exchange
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import BudgetError, StoreError
from rag_pipeline.models.batches import BatchNotes
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.store import SHARED_CALLS, Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_server import serving

MILLION = ChargedTokens(input=1_000_000)  # 0.15 USD of gpt-4o-mini


class Machine:
    def __init__(self, url: str, folder: Path, budget_usd: float | None = None) -> None:
        self.files = Store(url, SHARED_CALLS)
        self.exchange = Exchange(self.files, folder)
        self.cache = CallCache(folder / "calls.sqlite", self.exchange)
        self.ledger = Ledger(folder / "costs.sqlite", "tiny", budget_usd=budget_usd, shares=True)
        self.notes = BatchNotes(folder / "batches.sqlite", self.exchange)
        self.exchange.shelves = (self.cache, self.ledger, self.notes)

    def pull(self) -> None:
        self.exchange.pull(at_most_every=0)

    def segments(self) -> list[str]:
        return self.files.list("segments")

    def share(self, *numbers: int) -> None:
        self.cache.put(answers(*numbers))
        self.exchange.push()

    def spend(self, call_id: str | None = None) -> None:
        self.ledger.record("chat", "openai", "gpt-4o-mini", MILLION, call_id=call_id)


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    # A folder in the bucket's place: what is exchanged are whole files either way.
    shared = str(tmp_path / "shared")
    return Machine(shared, tmp_path / "one"), Machine(shared, tmp_path / "two", budget_usd=0.4)


class CountingStore(Store):
    """Counts the bytes that are read of segments."""

    fetched = 0

    def read_bytes(self, path: str) -> bytes | None:
        content = super().read_bytes(path)
        self.fetched += len(content or b"")
        return content

    def open_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_Counting(super().open_file(path), self), mode="r")


class _Counting:
    closed = False

    def __init__(self, file: pa.NativeFile, store: CountingStore) -> None:
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self._file, self._store = file, store

    def read(self, size: int | None = None) -> bytes:
        content = self._file.read(size)
        self._store.fetched += len(content)
        return bytes(content)


def answers(*numbers: int) -> dict[bytes, bytes]:
    return {f"key {n}".encode(): f"answer {n}".encode() for n in numbers}


def test_a_second_machine_asks_nothing_that_the_first_one_has_asked(tmp_path, bucket, monkeypatch):
    prompts = [Prompt(f"p{n}") for n in range(40)]

    def machine(name: str) -> Workspace:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        chats = {"m": {"provider": "openai", "model": "m", "base_url": server.url}}
        return Workspace(load_config(write_corpus(tmp_path, store=bucket, chats=chats)))

    with serving(lambda body: "yes") as server:
        one = machine("one")
        key = one.config.configuration("default").key
        with one.charging("answers", key):
            first = one.ask("m")(prompts)
        two = machine("two")
        assert two.cache.path != one.cache.path
        with two.charging("answers", key) as costs:
            again = two.ask("m")(prompts)
        assert len(server.requests) == 40
    assert again == first
    assert all(isinstance(reply, Reply) for reply in again)
    assert costs.calls == 0
    (ours, theirs) = (list(w.ledger.charges()) for w in (one, two))
    assert ours == theirs
    assert len(ours) == 40


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_of_many_answers_a_machine_fetches_the_parts_that_hold_what_it_needs(
    tmp_path, place, request
):
    shared = request.getfixturevalue("bucket") if place == "bucket" else str(tmp_path / "shared")
    one, two = Machine(shared, tmp_path / "one"), Machine(shared, tmp_path / "two")
    random = Random(0)
    known = {random.randbytes(32): random.randbytes(1536) for _ in range(4000)}
    one.cache.put(known, {key: Usage(1, 2) for key in list(known)[:500]})
    one.exchange.push()
    assert len(one.segments()) == 3
    two.files = two.exchange.files = files = CountingStore(shared, SHARED_CALLS)
    keys = list(known)
    needed = [keys[10], keys[3990]]
    two.pull()
    assert two.cache.known([*needed, b"nobody's"]) == set(needed)
    assert len(two.cache) == 0
    assert two.cache.get(needed) == {key: known[key] for key in needed}
    assert two.cache.usage(needed) == {keys[10]: Usage(1, 2)}
    assert 4000 * 32 < files.fetched < 0.2 * 4000 * 1536
    before = files.fetched
    assert two.cache.get(needed) == {key: known[key] for key in needed}
    assert files.fetched == before, "what was fetched stays"
    for first in range(0, 4000, 40):
        part = keys[first : first + 40]
        assert two.cache.get(part) == {key: known[key] for key in part}
    assert files.fetched < 2 * 4000 * 1536, "a machine that needs all of it reads no part again"


def test_segments_of_an_earlier_version_are_read(machines):
    one, two = machines
    charge = json.dumps(["2026-01-01T00:00:00.000+00:00", "tiny", *[""] * 2, "[]", "chat", "openai",
                         "gpt-4o-mini", 1, 0, 0, 0, False, 0.15]).encode()  # fmt: skip
    rows = [
        {"kind": "answer", "key": b"key 1", "value": b"answer 1"},
        {"kind": "charge", "key": b"id", "value": charge},
        # What an earlier version merged of a later one's segments, places and all.
        {"kind": "part", "key": b"key 2", "value": b"0"},
        {"kind": "answer", "key": b"key 2", "value": b"answer 2"},
    ]
    schema = pa.schema([("kind", pa.string()), ("key", pa.binary()), ("value", pa.large_binary())])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    name = f"{1:013d}-{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    one.files.write_bytes(f"segments/{name}", content)
    two.pull()
    assert len(two.cache) == 2
    assert two.cache.get(list(answers(1, 2))) == answers(1, 2)
    assert two.ledger.spent() == pytest.approx(0.15)


def test_answers_that_were_merged_into_another_segment_are_found_there(machines, monkeypatch):
    one, two = machines
    one.share(1)
    two.pull()
    one.share(2)
    monkeypatch.setattr(sharing, "MOST_SEGMENTS", 1)
    one.pull()
    assert len(one.segments()) == 1
    assert two.cache.get(list(answers(1, 2))) == answers(1, 2), "the merged one is known now"


def test_an_answer_that_rots_in_the_bucket_is_nobodys_and_may_be_asked_again(machines, caplog):
    one, two = machines
    value = Random(0).randbytes(500)  # not compressed: its bytes stand in the file
    one.cache.put({b"key 1": value})
    one.exchange.push()
    two.pull()
    (name,) = one.segments()
    content = one.files.read_bytes(f"segments/{name}")
    one.files.write_bytes(f"segments/{name}", content.replace(value, value[:-1] + b"!"))
    assert two.cache.known([b"key 1"]) == {b"key 1"}
    assert two.cache.get([b"key 1"]) == {}
    assert two.cache.known([b"key 1"]) == set()
    assert "may be asked again" in caplog.text


def test_both_ledgers_add_up_and_the_budget_holds_for_the_second_machine(machines):
    one, two = machines
    with charging(one.ledger):
        one.spend()
        one.spend("batch:1")
    two.spend()
    two.spend("batch:1")
    two.ledger.require("openai", "gpt-4o-mini")
    for machine in (one, two):
        machine.exchange.push()
    for machine in (one, two):
        machine.pull()
        machine.pull()
    assert one.ledger.spent() == two.ledger.spent() == pytest.approx(3 * 0.15)
    with pytest.raises(BudgetError, match=r"budget_usd 0\.4 is reached: tiny has cost 0\.4500"):
        two.ledger.require("openai", "gpt-4o-mini")


def test_what_a_killed_process_did_not_share_is_shared_by_the_next_one(tmp_path, bucket):
    with serving(lambda body: "yes") as server:
        script = (
            "import os, signal, sys; from pathlib import Path\n"
            "from rag_pipeline.calls import CallCache\n"
            "from rag_pipeline.models.chat import Prompt, ask\n"
            "from rag_pipeline.config import ChatModel\n"
            "from rag_pipeline.calls.costs import Ledger, charging\n"
            "from rag_pipeline.calls.sharing import Exchange\n"
            "class Empty:\n"
            "    def list(self, path): return []\n"
            "folder = Path(sys.argv[1])\n"
            "cache = CallCache(folder / 'calls.sqlite', Exchange(Empty(), folder))\n"
            "settings = ChatModel(provider='openai', model='m', base_url=sys.argv[2])\n"
            "with charging(Ledger(folder / 'costs.sqlite', 'tiny', shares=True)):\n"
            "    ask([Prompt(f'p{n}') for n in range(20)], settings, cache)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        assert Forked(script, tmp_path / "one", server.url).wait() == -signal.SIGKILL
        restarted, other = Machine(bucket, tmp_path / "one"), Machine(bucket, tmp_path / "two")
        assert restarted.segments() == []
        restarted.exchange.push()
        settings = ChatModel(provider="openai", model="m", base_url=server.url)
        replies = ask([Prompt(f"p{n}") for n in range(20)], settings, other.cache)
        assert len(server.requests) == 20
    assert all(isinstance(reply, Reply) for reply in replies)
    assert len(list(other.ledger.charges())) == 20
    restarted.exchange.push()
    assert len(restarted.segments()) == 1, "nothing is shared twice"


def test_a_segment_that_was_written_but_not_noted_is_adopted_once(machines, monkeypatch):
    one, two = machines
    one.cache.put(answers(1, 2))
    one.spend()
    write = Store.write_bytes

    def killed(self: Store, path: str, content: bytes) -> None:
        write(self, path, content)
        raise StoreError("killed after the write")

    monkeypatch.setattr(Store, "write_bytes", killed)
    one.exchange.push_if_possible()
    monkeypatch.undo()
    one.exchange.push()
    assert len(one.segments()) == 2
    two.pull()
    one.pull()
    assert two.cache.get(list(answers(1, 2))) == answers(1, 2)
    assert one.ledger.spent() == two.ledger.spent() == pytest.approx(0.15)


def test_a_torn_segment_is_ignored_with_one_warning(machines, caplog):
    one, two = machines
    one.share(1)
    (torn,) = one.segments()
    content = one.files.read_bytes(f"segments/{torn}")
    one.files.write_bytes(f"segments/{torn}", content[:-7])
    one.share(2)
    with caplog.at_level(logging.WARNING):
        two.pull()
        two.pull()
    assert two.cache.get(list(answers(1, 2))) == answers(2)
    (warning,) = caplog.messages
    assert torn in warning
    assert "may be asked again" in warning


def test_many_small_segments_become_one_and_say_the_same(machines, monkeypatch, tmp_path):
    one, two = machines
    monkeypatch.setattr(sharing, "MOST_SEGMENTS", 5)
    for n in range(6):
        one.cache.put(answers(n, n + 1))
        one.spend()
        one.exchange.push()
    two.pull()
    assert len(two.segments()) == 1
    third = Machine(str(tmp_path / "shared"), tmp_path / "three")
    for machine in (one, two, third):
        machine.pull()
        assert machine.cache.get(list(answers(*range(7)))) == answers(*range(7))
        assert machine.ledger.spent() == pytest.approx(6 * 0.15)
    assert len(two.segments()) == 1


def test_old_answers_leave_the_segments_and_charges_stay(machines, tmp_path):
    one, two = machines
    one.cache.put(answers(1, 2))
    one.spend()
    one.exchange.push()
    two.pull()
    assert two.cache.get(list(answers(1, 2))) == answers(1, 2)
    before = one.segments()
    keeping = partial(one.exchange.prune, keep=lambda keys: {b"key 1"})
    tomorrow = time.time() + 86_400
    assert keeping(0) == (0, 0), "nothing is so old"
    assert keeping(tomorrow, dry_run=True)[0] == 1
    assert one.segments() == before
    assert keeping(tomorrow)[0] == 1
    assert keeping(tomorrow) == (0, 0)
    third = Machine(str(tmp_path / "shared"), tmp_path / "three")
    third.pull()
    assert third.cache.get(list(answers(1, 2))) == answers(1)
    assert third.ledger.spent() == pytest.approx(0.15)
    two.pull()
    assert two.cache.get(list(answers(1, 2))) == answers(1, 2), "who has it keeps it"
    assert two.ledger.spent() == pytest.approx(0.15)


def test_a_big_segment_is_not_merged_again(machines, monkeypatch):
    one, two = machines
    monkeypatch.setattr(sharing, "MOST_SEGMENTS", 2)
    monkeypatch.setattr(sharing, "SMALL_BYTES", 3000)
    one.cache.put({b"big": bytes(range(256)) * 4 + json.dumps(list(range(2000))).encode()})
    one.exchange.push()
    (big,) = one.segments()
    for n in range(3):
        one.share(n)
    two.pull()
    assert len(two.segments()) == 2
    assert big in two.segments()


def test_a_batch_that_one_machine_submits_is_known_to_the_other(machines):
    one, two = machines
    keys = [b"a" * 32, b"b" * 32]
    one.notes.add("token-1", keys)
    two.pull()
    assert two.notes.tokens(keys) == {}, "not before it is submitted"
    one.notes.submitted("token-1", "batch-1")
    two.pull()
    assert two.notes.tokens(keys) == dict.fromkeys(keys, ("token-1", "batch-1"))
    one.notes.submitted("token-1", "batch-1")
    one.notes.release("token-1")
    one.exchange.push()
    assert len(one.segments()) == 2, "a batch is told once, and that it was refused"
    two.pull()
    assert two.notes.tokens(keys) == {}


def test_where_the_bucket_is_away_answers_wait_and_say_so(machines, caplog, tmp_path):
    one, two = machines
    one.cache.put(answers(1))
    away = tmp_path / "shared" / SHARED_CALLS / "segments"
    away.parent.mkdir(parents=True, exist_ok=True)
    away.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        one.exchange.push_if_possible()
    assert "shared by the next run" in caplog.text
    away.unlink()
    one.exchange.push()
    two.pull()
    assert two.cache.get(list(answers(1))) == answers(1)


def test_what_a_machine_knew_before_it_shared_is_shared(tmp_path):
    folder = tmp_path / "one"
    CallCache(folder / "calls.sqlite").put(answers(1))
    Ledger(folder / "costs.sqlite", "tiny").record("chat", "openai", "gpt-4o-mini", MILLION)
    one = Machine(str(tmp_path / "shared"), folder)
    two = Machine(str(tmp_path / "shared"), tmp_path / "two")
    one.exchange.push()
    two.pull()
    assert two.cache.get(list(answers(1))) == answers(1)
    assert list(two.ledger.charges()) == list(one.ledger.charges())
    assert two.ledger.spent() == pytest.approx(0.15)


def test_a_full_outbox_is_shared_at_once_in_the_background(machines, monkeypatch):
    one, two = machines
    monkeypatch.setattr(sharing, "PUSH_RECORDS", 10)
    one.cache.put(answers(*range(9)))
    timer = one.exchange._timer
    assert timer is not None
    assert timer.interval == sharing.PUSH_SECONDS
    one.cache.put(answers(9))
    background = one.exchange._timer
    if background is not None:
        background.join(30)
    two.pull()
    assert two.cache.known(list(answers(*range(10)))) == answers(*range(10)).keys()
