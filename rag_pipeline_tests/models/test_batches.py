from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from rag_pipeline.calls import CallCache, CallCounts, Database
from rag_pipeline.calls.costs import Ledger, Prices, charging
from rag_pipeline.calls.sql import requests
from rag_pipeline.errors import BudgetError, CallsStoppedError
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_calls import chat, texts
from rag_pipeline_tests.testing.model_faults import CUT_REPLY, EXPIRED, Failure, Fault, poison
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import serving, shout

PROMPTS = [Prompt(f"chunk {n}", prefix="document ") for n in range(5)]


SHOUTED = [f"DOCUMENT CHUNK {n}" for n in range(5)]
model = partial(chat, batch=True)


def test_a_batch_answers_under_the_keys_of_single_calls(cache: CallCache):
    with serving() as server:
        counts = CallCounts()
        replies = ask([*PROMPTS, PROMPTS[0]], model(server.url), cache, counts)
        assert texts(replies) == [*SHOUTED, SHOUTED[0]]
        assert (counts.made, counts.saved) == (5, 1)
        assert (len(server.batches.made), len(server.batches.submitted)) == (1, 5)
        assert server.batches.submitted[0]["body"]["temperature"] == 0.0
        single = ask(PROMPTS, model(server.url, batch=False), cache)
        assert texts(single) == SHOUTED
        assert len(server.batches.submitted) == 5
    assert cache.database.read(select(requests)) == [], "nothing to wait for"


def test_a_batch_whose_answer_was_lost_is_found_by_its_token(cache: CallCache):
    def lost(path: str, body: Body) -> Failure:
        return CUT_REPLY if path == "batches" and body else None

    with serving(faults=lost) as server:
        assert texts(ask(PROMPTS, model(server.url), cache)) == SHOUTED
        assert len(server.batches.made) == 1


def test_another_machine_finds_the_batch_of_the_same_prompts(tmp_path: Path):
    one, two = (CallCache(Database(tmp_path / name / "calls.sqlite")) for name in ("one", "two"))
    with serving() as server:
        for cache in (one, two):
            assert texts(ask(PROMPTS, model(server.url), cache)) == SHOUTED
        assert len(server.batches.made) == 1


def test_two_runs_at_once_share_a_batch(tmp_path: Path):
    caches = [CallCache(Database(tmp_path / "calls.sqlite")) for _ in range(2)]
    with serving(batches=Batches(looks=3)) as server:

        def one(cache: CallCache) -> list[str]:
            return texts(ask(PROMPTS, model(server.url), cache))

        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(one, caches))
        assert found[0] == found[1] == SHOUTED
        assert len(server.batches.submitted) == 5


def test_lines_that_may_pass_are_submitted_again_and_refusals_are_not(cache: CallCache):
    busy = {"document chunk 1": 2, "document chunk 2": 1}

    def answer(body: Body) -> str | Failure:
        text = body["messages"][-1]["content"]
        if text == "document chunk 3":
            return Fault(400, "too long")
        if busy.get(text):
            busy[text] -= 1
            return EXPIRED if text.endswith("1") else Fault(500, "sorry")
        return shout(body)

    with serving(answer) as server:
        replies = texts(ask(PROMPTS, model(server.url), cache))
    assert replies[:3] == SHOUTED[:3]
    assert replies[3] == "failed: batch batch_1: too long (HTTP 400)"
    assert len(server.batches.submitted) == 5 + 2 + 1


def test_a_line_that_never_passes_fails_with_its_reason(cache: CallCache):
    with serving(lambda body: Fault(500, "sorry")) as server:
        replies = texts(ask(PROMPTS[:1], model(server.url), cache))
        assert replies == ["failed: batch batch_3: sorry (HTTP 500)"]
        assert len(server.batches.made) == 3


def test_what_a_dead_batch_lacks_is_submitted_anew_by_the_next_run(cache: CallCache):
    down = True

    def answer(body: Body) -> str | Failure:
        return EXPIRED if down else shout(body)

    with serving(answer) as server:
        failed = texts(ask(PROMPTS, model(server.url), cache))
        assert failed == ["failed: batch batch_3: expired"] * 5
        down = False
        assert texts(ask(PROMPTS, model(server.url), cache)) == SHOUTED
        assert len(server.batches.made) == 4
        assert max(server.billed.values()) == 1


@pytest.mark.parametrize(
    "line",
    [
        {"nonsense": True},
        ["no", "object"],
        b"{broken",
        b'{"custom_id": "not hex"}',
        b'["a list"]',
        b"7",
    ],
)
def test_a_malformed_line_costs_its_own_request_alone(cache: CallCache, line: Any):
    broken = [line]

    def faults(path: str, body: Body) -> Failure:
        if path.startswith("batch/") and "chunk 2" in str(body["messages"]) and broken:
            made = broken.pop()
            return lambda reply: made
        return None

    with serving(faults=faults) as server:
        assert texts(ask(PROMPTS, model(server.url), cache)) == SHOUTED
        assert len(server.batches.submitted) == 5 + 1
        assert server.billed == Counter(
            {f"document chunk {n}": 2 if n == 2 else 1 for n in range(5)}
        )


def test_an_invalid_reply_is_repaired_by_a_single_call(cache: CallCache):
    schema = {"type": "object", "required": ["level"], "properties": {"level": {"enum": ["low"]}}}

    def answer(body: Body) -> str:
        repair = len(body["messages"]) > 1
        return '{"level": "low"}' if repair else "dunno"

    with serving(answer) as server:
        (reply,) = ask([Prompt("how?", schema=schema)], model(server.url), cache)
    assert isinstance(reply, Reply)
    assert reply.data == {"level": "low"}


def test_refused_batches_stop_the_run_with_the_reason(cache: CallCache):
    refusing = serving(batches=Batches(final_status="failed"))
    told = "batch_6 was refused: too many tokens"
    with refusing as server, pytest.raises(CallsStoppedError, match=told):
        ask(PROMPTS, model(server.url), cache)
    assert len(server.batches.submitted) == 5 + 3 + 2 + 1 + 1 + 1
    assert server.prompts == [], "no single call pays the full price"


@pytest.mark.parametrize("fault", [None, Fault(400, "no")])
def test_prompts_for_which_a_batch_is_refused_are_asked_alone(cache: CallCache, fault: Failure):
    class Strict(Batches):
        def _look(self, batch_id: str, line: Any) -> Body:
            refused = b"poison" in self.files[self.made[batch_id]["input_file_id"]]
            self.final_status = "failed" if refused else "completed"
            return super()._look(batch_id, line)

    bad = ["poison a", "poison b", "poison c"]
    prompts = [p for n in range(3) for p in (*PROMPTS[2 * n : 2 * n + 2], Prompt(bad[n]))]
    with serving(faults=poison(fault, *bad), batches=Strict()) as server:
        for run in (1, 2):
            found = texts(ask(prompts, model(server.url), cache))
            assert [t for t in found if "CHUNK" in t] == SHOUTED
            assert sum("POISON" in t if fault is None else "HTTP 400" in t for t in found) == 3
            assert sorted(server.prompts) == sorted(bad * (1 if fault is None else run))
            # Each search submits a half and the rest of each of four halves.
            assert len(server.batches.made) <= 1 + 3 * 2 * 3, "the second run makes none"


def test_a_batch_is_charged_once_at_its_price_and_never_over_the_budget(
    cache: CallCache, tmp_path: Path
):
    with serving() as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        models = {"m": {"input": 1.0, "output": 4.0, "batch": 0.5}}
        listed = {host: {"date": "2026-11-21", "models": models}}
        prices = Prices.model_validate({"providers": listed})
        ledger = Ledger(Database(tmp_path / "ledger.sqlite"), "tiny", prices)
        # 5 x (16 bytes / 4 -> 4 tokens in at 0.5, 150 out at 2.0) = 1510 millionths of a dollar
        tight = Ledger(Database(tmp_path / "ledger.sqlite"), "tiny", prices, budget_usd=0.0015)
        with (
            charging(tight),
            pytest.raises(BudgetError, match=r"about 0\.0015 USD more would exceed"),
        ):
            ask(PROMPTS, model(server.url), cache)
        assert len(server.batches.made) == 0
        with charging(ledger):
            ask(PROMPTS, model(server.url), cache)
            cache.database.close()
            cache.database.path.unlink()
            ask(PROMPTS, model(server.url), CallCache(Database(cache.database.path)))
        # Each: 3 words in, 3 out: (3 x 1 + 3 x 4) / 2 millionths.
        assert [c.batch for c in ledger.charges()] == [True] * 5
        assert ledger.spent() == pytest.approx(5 * 7.5e-6)
