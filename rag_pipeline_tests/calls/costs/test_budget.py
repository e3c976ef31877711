"""A budget is passed by no more than the error of one call's estimate, whatever happens."""

import threading
from pathlib import Path

import pytest

from rag_pipeline.calls.costs import ChargedTokens, Ledger
from rag_pipeline.errors import BudgetError
from rag_pipeline_tests.testing.budget_runs import run_under_budget
from rag_pipeline_tests.testing.databases import opened

USUAL, MOST = ChargedTokens(output=100), ChargedTokens(output=1000)
MODEL = "openai", "gpt-4o"  # 10 USD per million tokens of output
PRICE = 10e-6


def ledger(place: str, tokens: int) -> Ledger:
    return Ledger(opened(place), "tiny", budget_usd=tokens * PRICE)


@pytest.mark.parametrize("seed", range(8))
def test_runs_with_chance_prices_budgets_and_faults_keep_their_budget(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    outcome = run_under_budget(tmp_path / "calls.sqlite", seed)
    assert outcome.is_kept, outcome


@pytest.mark.parametrize("seed", [100, 103])
def test_a_killed_run_keeps_the_budget_together_with_the_next(
    database_place: str, seed: int
) -> None:
    outcome = run_under_budget(database_place, seed, killed=True)
    assert outcome.is_kept, outcome


def test_what_is_set_aside_counts_until_its_call_is_settled(database_place: str) -> None:
    mine, other = ledger(database_place, 2500), ledger(database_place, 2500)
    assert mine.reserve(*MODEL, {"a": (USUAL, MOST)})
    assert other.reserve(*MODEL, {"b": (USUAL, MOST)})
    assert not mine.reserve(*MODEL, {"c": (USUAL, MOST)}), (
        "1000 of the 2500 may still be used by each"
    )
    mine.cancel(["a"])
    assert mine.reserve(*MODEL, {"c": (USUAL, MOST)})


def test_the_last_call_goes_alone_and_one_that_is_not_expected_to_fit_not_at_all(
    database_place: str,
) -> None:
    mine = ledger(database_place, 300)
    assert mine.reserve(*MODEL, {"a": (USUAL, MOST)}), "expected to fit"
    assert not mine.reserve(*MODEL, {"b": (USUAL, MOST)})
    mine.cancel(["a"])
    mine.record("chat", *MODEL, ChargedTokens(output=250))
    with pytest.raises(BudgetError, match=r"0\.0010 USD more would exceed budget_usd 0\.003"):
        mine.reserve(*MODEL, {"b": (USUAL, MOST)})


def test_a_call_whose_cost_nobody_told_counts_as_what_it_may_have_cost(database_place: str) -> None:
    mine = ledger(database_place, 1050)
    assert mine.reserve(*MODEL, {"a": (USUAL, MOST)})
    mine.keep(["a"])
    with pytest.raises(BudgetError, match=r"calls of unknown cost may add 0\.0100 USD"):
        mine.reserve(*MODEL, {"b": (USUAL, MOST)})


def test_a_batch_takes_the_requests_that_surely_fit(database_place: str) -> None:
    mine = ledger(database_place, 2100)
    asked = dict.fromkeys("abcd", (USUAL, MOST))
    # A batch of gpt-4o costs half: 500 of 2100 each.
    assert mine.reserve(*MODEL, asked, batch=True) == list("abcd")
    assert mine.reserve(*MODEL, {"e": (USUAL, MOST)}, batch=True) is None, "until one has ended"
    mine.cancel(list("abcd"))
    smaller = ledger(database_place, 1100)
    assert smaller.reserve(*MODEL, asked, batch=True) == ["a", "b"]


def test_many_threads_set_aside_no_more_than_there_is(database_place: str) -> None:
    held: list[str] = []

    def one(name: str) -> None:
        if ledger(database_place, 3500).reserve(*MODEL, {name: (USUAL, MOST)}):
            held.append(name)

    threads = [threading.Thread(target=one, args=[str(n)]) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 3
