"""A budget is passed by no more than the error of one call's estimate, whatever happens."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rag_pipeline.calls.costs import ChargedTokens, Ledger
from rag_pipeline.errors import BudgetError
from rag_pipeline_tests.testing.budget_runs import run_under_budget

USUAL, MOST = ChargedTokens(output=100), ChargedTokens(output=1000)
MODEL = "openai", "gpt-4o"  # 10 USD per million tokens of output
PRICE = 10e-6


def ledger(folder: Path, tokens: int) -> Ledger:
    return Ledger(folder / "costs.sqlite", "tiny", budget_usd=tokens * PRICE)


@pytest.mark.parametrize("seed", range(24))
def test_runs_with_chance_prices_budgets_and_faults_keep_their_budget(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    outcome = run_under_budget(tmp_path, seed)
    assert outcome.is_kept, outcome


@pytest.mark.parametrize("seed", [100, 103])
def test_a_killed_run_keeps_the_budget_together_with_the_next(tmp_path: Path, seed: int) -> None:
    outcome = run_under_budget(tmp_path, seed, killed=True)
    assert outcome.is_kept, outcome


def test_what_is_set_aside_counts_until_its_call_is_settled(tmp_path: Path) -> None:
    mine, other = ledger(tmp_path, 2500), ledger(tmp_path, 2500)
    assert mine.reserve("a", *MODEL, USUAL, MOST)
    assert other.reserve("b", *MODEL, USUAL, MOST)
    assert not mine.reserve("c", *MODEL, USUAL, MOST), "1000 of the 2500 may still be used by each"
    mine.release(["a"])
    assert mine.reserve("c", *MODEL, USUAL, MOST)


def test_the_last_call_goes_alone_and_one_that_is_not_expected_to_fit_not_at_all(
    tmp_path: Path,
) -> None:
    mine = ledger(tmp_path, 300)
    assert mine.reserve("a", *MODEL, USUAL, MOST), "expected to fit"
    assert not mine.reserve("b", *MODEL, USUAL, MOST)
    mine.release(["a"])
    mine.record("chat", *MODEL, ChargedTokens(output=250))
    with pytest.raises(BudgetError, match=r"0\.0010 USD more would go over budget_usd 0\.003"):
        mine.reserve("b", *MODEL, USUAL, MOST)


def test_a_call_whose_cost_nobody_told_counts_as_what_it_may_have_cost(tmp_path: Path) -> None:
    mine = ledger(tmp_path, 1050)
    assert mine.reserve("a", *MODEL, USUAL, MOST)
    mine.forfeit(["a"])
    with pytest.raises(BudgetError, match=r"up to 0\.0100 USD more by calls whose cost was never"):
        mine.reserve("b", *MODEL, USUAL, MOST)


def test_what_an_earlier_version_set_aside_counts_as_spent(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "costs.sqlite")) as connection, connection:
        connection.execute(
            "CREATE TABLE reservations (id TEXT PRIMARY KEY, corpus TEXT NOT NULL, "
            "usd REAL NOT NULL, pid INTEGER NOT NULL)"
        )
        connection.execute("INSERT INTO reservations VALUES ('a', 'tiny', 0.01, 1)")
    mine = ledger(tmp_path, 1050)
    with pytest.raises(BudgetError, match=r"up to 0\.0100 USD more by calls whose cost was never"):
        mine.reserve("b", *MODEL, USUAL, MOST)


def test_a_batch_takes_the_requests_that_surely_fit(tmp_path: Path) -> None:
    mine = ledger(tmp_path, 2100)
    asked = dict.fromkeys("abcd", (USUAL, MOST))
    # A batch of gpt-4o costs half: 500 of 2100 each.
    assert mine.reserve_batch(*MODEL, asked) == list("abcd")
    assert mine.reserve_batch(*MODEL, {"e": (USUAL, MOST)}) is None, "until one has ended"
    mine.release(list("abcd"))
    smaller = ledger(tmp_path, 1100)
    assert smaller.reserve_batch(*MODEL, asked) == ["a", "b"]


def test_many_threads_set_aside_no_more_than_there_is(tmp_path: Path) -> None:
    held: list[str] = []

    def one(name: str) -> None:
        if ledger(tmp_path, 3500).reserve(name, *MODEL, USUAL, MOST):
            held.append(name)

    threads = [threading.Thread(target=one, args=[str(n)]) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 3
