"""Money that is set aside for calls before they are sent, so that together they keep a budget.

A reservation is a row beside the charges, made in one transaction with the look at what is spent
and set aside; the charge of its call takes its place. It holds the most that a call may cost. Near
the budget's end a call that is expected to fit, but may not, waits until nothing else is on its
way, and goes alone: so a budget is passed by the error of one call's estimate at most. What a
killed process has set aside counts as spent, for the provider may have billed it.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rag_pipeline.calls import owners
from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.costs.allowances import Allowance, Spending
from rag_pipeline.calls.databases import add_column
from rag_pipeline.errors import BudgetError

TABLE = """
CREATE TABLE IF NOT EXISTS reservations (
  id TEXT PRIMARY KEY, corpus TEXT NOT NULL, usd REAL NOT NULL, pid INTEGER NOT NULL,
  owner TEXT NOT NULL DEFAULT ''
)
"""

_current: ContextVar[str | None] = ContextVar("reservation", default=None)


class Cost(NamedTuple):
    """What a call is expected to cost and what it may cost at most, in USD."""

    expected: float
    most: float


@dataclass(frozen=True, slots=True)
class Purse:
    """What a corpus may spend: its budget, and how to read what it has spent in a transaction."""

    corpus: str
    budget: float
    spent: Callable[[sqlite3.Connection], float]
    owners: Path
    """The folder that tells which processes live."""
    allowance: Allowance | None = None
    """The part of a budget over machines; None where all share the ledger's file."""

    def reserve(self, connection: sqlite3.Connection, name: str, cost: Cost) -> bool:
        """Set money aside for one call; return whether it may go now, or must wait for others.

        Raises BudgetError where it doesn't fit.
        """
        spent, held, room, others = self._state(connection, cost.most)
        amount = cost.most
        if cost.most > room:
            if others:
                return False
            if spent + held >= self.budget or cost.expected > room:
                raise self.error(spent, held, cost.expected)
            amount = room  # all of it, so that it goes alone
        self._add(connection, {name: amount})
        return True

    def reserve_some(
        self, connection: sqlite3.Connection, costs: Mapping[str, Cost]
    ) -> list[str] | None:
        """Set money aside for the first requests of a batch; return those, None to wait.

        Raises BudgetError where not even one fits.
        """
        most = sum(cost.most for cost in costs.values())
        spent, held, room, others = self._state(connection, most)
        if sum(cost.expected for cost in costs.values()) > room:
            if others:
                return None
            raise self.error(spent, held, sum(cost.expected for cost in costs.values()))
        fitting: dict[str, float] = {}
        for name, cost in costs.items():
            room -= cost.most
            if room < 0:
                break
            fitting[name] = cost.most
        if not fitting:
            if others:
                return None
            raise self.error(spent, held, next(iter(costs.values())).most)
        self._add(connection, fitting)
        return list(fitting)

    def error(self, spent: float, held: float, more: float) -> BudgetError:
        """Return the error that says what was spent, and what more would have been."""
        has = f"{self.corpus} has cost {spent:.4f} USD"
        if held:
            has += f", and up to {held:.4f} USD more by calls whose cost was never told"
        if spent + held >= self.budget:
            said = f"budget_usd {self.budget:g} is reached: {has}"
        else:
            said = f"about {more:.4f} USD more would go over budget_usd {self.budget:g}: {has}"
        return BudgetError(f"{said}; what was done is kept, raise budget_usd to go on")

    def _state(self, connection: sqlite3.Connection, need: float) -> Spending:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(
            "SELECT owner, total(usd) FROM reservations WHERE corpus = ? GROUP BY owner",
            (self.corpus,),
        ).fetchall()
        held, spent = sum(usd for _, usd in rows), self.spent(connection)
        others = any(owners.lives(self.owners, owner) for owner, _ in rows if owner)
        if self.allowance is None:
            return Spending(spent, held, self.budget - spent - held, others)
        return self.allowance.state(connection, need, spent, held, others)

    def _add(self, connection: sqlite3.Connection, amounts: Mapping[str, float]) -> None:
        owner = owners.process_name(self.owners)
        connection.executemany(
            "INSERT OR REPLACE INTO reservations (id, corpus, usd, pid, owner) "
            "VALUES (?, ?, ?, ?, ?)",
            ((name, self.corpus, usd, os.getpid(), owner) for name, usd in amounts.items()),
        )


def open_table(connection: sqlite3.Connection) -> None:
    """Create the table; give one of an earlier version the owners."""
    connection.execute(TABLE)
    add_column(connection, "reservations", "owner", "TEXT NOT NULL DEFAULT ''")


def held_by_all(connection: sqlite3.Connection, corpus: str) -> float:
    """Return what is set aside for a corpus's calls by all processes of this machine."""
    query = "SELECT total(usd) FROM reservations WHERE corpus = ?"
    return float(connection.execute(query, (corpus,)).fetchone()[0])


def settle(connection: sqlite3.Connection) -> None:
    """Drop the reservation of the call that is charged in this transaction, if there is one."""
    name = _current.get()
    if name is not None:
        drop(connection, [name])


def drop(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Give back what was set aside."""
    connection.executemany("DELETE FROM reservations WHERE id = ?", ((name,) for name in names))


def keep(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Count what was set aside as spent from now on: nobody will tell what the call cost."""
    connection.executemany(
        "UPDATE reservations SET pid = 0, owner = '' WHERE id = ?", ((n,) for n in names)
    )


def settling(name: str) -> AbstractContextManager[None]:
    """Let the charge inside the block take the place of a reservation."""
    return setting(_current, name)
