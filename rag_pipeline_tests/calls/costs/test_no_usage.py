"""Replies that do not name their tokens are charged, and the ledger marks them."""

from pathlib import Path

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.costs import Ledger, Price, Prices, charging
from rag_pipeline.errors import BudgetError
from rag_pipeline.models.embedding import embed
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder
from rag_pipeline_tests.testing.model_replies import Body, completed
from rag_pipeline_tests.testing.model_server import serving


def without_usage(reply: Body) -> Body:
    return {name: value for name, value in reply.items() if name != "usage"}


def test_a_reply_without_usage_is_charged_by_the_tokens_sent_and_allowed(tmp_path: Path) -> None:
    database = Database(tmp_path / "calls.sqlite")
    with serving(faults=lambda path, body: without_usage) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        prices = Prices().including({(host, "m"): Price(input=1.0, output=1.0)})
        ledger = Ledger(database, "tiny", prices, budget_usd=0.001)
        with charging(ledger):
            asked(["one " * 30], chat(server.url, max_output_tokens=50), CallCache(database))
            embed(["two " * 30], embedder(server.url), CallCache(database))
            with pytest.raises(BudgetError):
                embed(["three " * 3000], embedder(server.url), CallCache(database))
    first, second = ledger.charges()
    assert first.model == second.model == "m (estimated)"
    assert first.output == 50
    assert first.input >= 30
    assert second.input >= 30
    assert ledger.spent() >= 110e-6


def test_replies_of_a_batch_without_usage_are_charged_within_the_budget(tmp_path: Path) -> None:
    database = Database(tmp_path / "calls.sqlite")
    with serving(lambda body: without_usage) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        prices = Prices().including({(host, "m"): Price(input=1000.0, output=1000.0, batch=0.5)})
        ledger = Ledger(database, "tiny", prices, budget_usd=0.1)
        own = chat(server.url, batch=True, max_output_tokens=50)
        with charging(ledger):
            asked(["one " * 30], own, CallCache(database))
            with pytest.raises(BudgetError):
                asked([f"{n} " * 30 for n in range(9)], own, CallCache(database))
    (charge,) = ledger.charges()
    assert (charge.model, charge.output, charge.batch) == ("m (estimated)", 50, True)
    assert charge.usd == pytest.approx((charge.input + 50) / 2 / 1000)
    assert len(server.batches.submitted) == 1


@pytest.mark.parametrize(
    ("usage", "charged"),
    [
        ({"prompt_tokens": 10}, (10, 50)),
        ({"prompt_tokens": 10, "completion_tokens": 0}, (10, 50)),
        ({"prompt_tokens": 0, "completion_tokens": 9}, (None, 9)),
        ({"prompt_tokens": 10, "completion_tokens": 9}, (10, 9)),
    ],
)
def test_only_the_counts_that_a_reply_lacks_are_estimated(
    usage: Body, charged: tuple[int | None, int], cache: CallCache
) -> None:
    ledger = Ledger(cache.database, "tiny")
    answers = serving(lambda body: lambda reply: {**reply, "usage": usage})
    with answers as server, charging(ledger):
        for n in range(6):
            asked([f"one {n}" * 30], chat(server.url, max_output_tokens=50), cache)
    read, written = charged
    host = server.url.removeprefix("http://").removesuffix("/v1")
    for charge in ledger.charges():
        assert charge.output == written
        assert charge.input == read if read else charge.input >= 30
        assert charge.model == ("m" if charged == (10, 9) else "m (estimated)")
    learned = ledger.learned(host, "m", "chat", "").factors
    assert bool(learned) == (charged == (10, 9)), "estimates teach nothing about tokens"


def test_a_blank_reply_with_no_tokens_is_not_estimated(cache: CallCache) -> None:
    ledger = Ledger(cache.database, "tiny")
    none = {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}
    blanks = serving(lambda body: lambda reply: {**completed("", body), "usage": none})
    with blanks as server, charging(ledger):
        asked(["one"], chat(server.url, max_output_tokens=50), cache)
    assert {(c.model, c.input, c.output) for c in ledger.charges()} == {("m", 10, 0)}
