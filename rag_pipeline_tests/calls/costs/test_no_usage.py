"""Replies that do not name their tokens are charged, and the ledger marks them."""

from pathlib import Path

import pytest

from rag_pipeline.calls import CallCache, Database
from rag_pipeline.calls.costs import Ledger, Price, Prices, charging
from rag_pipeline.errors import BudgetError
from rag_pipeline.models.embedding import embed
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder
from rag_pipeline_tests.testing.model_replies import Body
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
