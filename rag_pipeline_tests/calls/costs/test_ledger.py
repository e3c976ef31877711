from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag_pipeline.calls import Database
from rag_pipeline.calls.costs import (
    ChargedTokens,
    Ledger,
    Totals,
    attributed,
    charging,
    record,
    require_budget,
)
from rag_pipeline.errors import BudgetError
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked

MILLION = 1_000_000


def test_a_call_is_charged_to_whoever_asked_for_it(database_place: str):
    ledger = Ledger(opened(database_place), "tiny")
    with charging(ledger), attributed("contextualized_chunks", "a.llm", ["one", "two"]):
        record("chat", "openai", "gpt-4o-mini", input_tokens=MILLION, output_tokens=MILLION)
    record("chat", "openai", "gpt-4o-mini", input_tokens=MILLION)  # outside: nobody's
    (charge,) = ledger.charges()
    assert (charge.asset, charge.partition) == ("contextualized_chunks", "a.llm")
    assert charge.configurations == ("one", "two")
    assert (charge.input, charge.cached, charge.output) == (MILLION, 0, MILLION)
    assert charge.usd == pytest.approx(0.75)


def test_an_unknown_price_is_counted_and_not_zero(database_place: str):
    ledger = Ledger(opened(database_place), "tiny")
    ledger.record("chat", "openai", "gpt-99", ChargedTokens(input=7))
    ledger.record("embedding", "voyage", "voyage-3.5", ChargedTokens(input=MILLION))
    totals = Totals()
    for charge in ledger.charges():
        totals.add(charge)
    assert [c.usd for c in ledger.charges()] == [None, pytest.approx(0.06)]
    assert (totals.calls, totals.unpriced, totals.usd) == (2, 1, pytest.approx(0.06))


def test_corpora_share_the_file_and_not_the_bill(database_place: str):
    one, two = (Ledger(opened(database_place), name) for name in ("one", "two"))
    one.record("chat", "openai", "gpt-4o", ChargedTokens(output=MILLION))
    two.record("chat", "openai", "gpt-4o", ChargedTokens(input=MILLION))
    assert (one.spent(), two.spent()) == (10.0, 2.5)


def test_a_call_with_an_id_is_charged_once(database_place: str):
    ledger = Ledger(opened(database_place), "tiny")
    for _ in range(2):
        ledger.record(
            "chat", "openai", "gpt-4o", ChargedTokens(output=MILLION), call_id="batch_1:a"
        )
    assert ledger.spent() == 10.0


def test_threads_and_processes_add_without_losing_a_call(database_place: str):
    script = (
        "import sys\n"
        "from rag_pipeline_tests.testing.databases import opened\n"
        "from rag_pipeline.calls.costs import Ledger, ChargedTokens\n"
        "ledger = Ledger(opened(sys.argv[1]), 'tiny')\n"
        "used = ChargedTokens(output=100_000)\n"
        "for _ in range(50): ledger.record('chat', 'openai', 'gpt-4o', used)\n"
    )
    other = Forked(script, database_place)
    ledger = Ledger(opened(database_place), "tiny")

    def add(_: int) -> None:
        for _ in range(25):
            ledger.record("chat", "openai", "gpt-4o", ChargedTokens(output=100_000))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert other.wait() == 0
    assert len(list(ledger.charges())) == 150
    assert ledger.spent() == pytest.approx(150.0)


def test_a_budget_holds_over_all_processes_and_can_be_raised(database_place: str):
    mine = Ledger(opened(database_place), "tiny", budget_usd=15.0)
    other = Ledger(opened(database_place), "tiny", budget_usd=15.0)
    with charging(mine):
        record("chat", "openai", "gpt-4o", output_tokens=MILLION)
        require_budget("openai", "gpt-4o")
        other.record("chat", "openai", "gpt-4o", ChargedTokens(output=MILLION))
        with pytest.raises(BudgetError, match=r"budget_usd 15 is reached: tiny has cost 20\.0000"):
            require_budget("openai", "gpt-4o")
        require_budget("minilm", "minilm")
    with charging(Ledger(opened(database_place), "tiny", budget_usd=30.0)):
        require_budget("openai", "gpt-4o")


def test_a_budget_of_zero_lets_only_local_models_be_called(database_place: str):
    with charging(Ledger(opened(database_place), "tiny", budget_usd=0.0)):
        require_budget("minilm", "all-MiniLM-L6-v2")
        require_budget("127.0.0.1:8080", "SmolLM2")
        with pytest.raises(BudgetError, match="budget_usd 0 is reached"):
            require_budget("openai", "gpt-4o-mini")


def test_a_model_of_unknown_price_is_refused_under_a_budget(database_place: str):
    with (
        charging(Ledger(opened(database_place), "tiny", budget_usd=5.0)),
        pytest.raises(BudgetError, match=r"gpt-99: the price is unknown.*`prices`"),
    ):
        require_budget("openai", "gpt-99")


def test_a_position_tells_later_calls_apart(database_place: str):
    ledger = Ledger(opened(database_place), "tiny")
    ledger.record("chat", "openai", "gpt-4o", ChargedTokens(input=1))
    here = ledger.position()
    ledger.record("chat", "openai", "gpt-4o", ChargedTokens(input=2))
    assert [c.input for c in ledger.charges(after=here)] == [2]


def test_charges_of_this_machine_alone_are_moved_into_the_shared_database(
    tmp_path: Path, postgres_url: str
) -> None:
    own = Ledger(Database(tmp_path / "calls.sqlite"), "tiny")
    with attributed("answers", "a", ["one"]):
        own.record("chat", "openai", "gpt-4o", ChargedTokens(output=MILLION), call_id="b:1")
    before = list(own.charges())
    shared = Ledger(opened(postgres_url), "tiny", store="s3://bucket")
    shared.record("chat", "openai", "gpt-4o", ChargedTokens(output=MILLION), call_id="b:1")
    shared.record("chat", "openai", "gpt-4o", ChargedTokens(output=MILLION), call_id="b:2")
    for _ in range(2):
        shared.take_over(own.database)
    assert shared.spent() == 20.0, "one that both know counts once"
    own.record("chat", "openai", "gpt-4o-mini", ChargedTokens(input=MILLION))
    shared.take_over(own.database)
    assert shared.spent() == pytest.approx(20.15)
    assert list(own.charges()) == []
    assert before[0].configurations == ("one",)
    assert Ledger(opened(postgres_url), "tiny", store="s3://other").spent() == 0.0
