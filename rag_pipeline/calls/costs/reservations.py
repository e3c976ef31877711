"""Money reserved for calls before they are sent, so that all calls together keep a budget.

A reservation is a row beside the charges, and holds the highest possible cost of its call. It is
made in the transaction that reads the sums spent and reserved. The charge of the call replaces it.

Near the end of the budget, a call may be expected to fit although its highest cost does not. It
waits until no other call is on its way, and goes alone. So a budget is exceeded by the error of
one estimate at most. Reservations of a killed process count as spent: their calls may be billed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select, update

from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.database import Database, parts
from rag_pipeline.calls.processes import is_alive
from rag_pipeline.calls.schema import processes, reservations
from rag_pipeline.errors import BudgetError

_current: ContextVar[str | None] = ContextVar("reservation", default=None)


class Cost(NamedTuple):
    """The expected and the highest possible cost of a call, in USD."""

    expected: float
    most: float


class Budget(NamedTuple):
    """The budget of one corpus in one database."""

    database: Database
    store: str
    corpus: str
    usd: float
    spent: Callable[[Connection], float]
    """Returns the USD spent so far, in a transaction."""
    lock: str

    def reserve(self, costs: Mapping[str, Cost]) -> list[str] | None:
        """Reserve money for the first requests, those that fit; return their names.

        Return None if all must wait for other calls to end. Raise BudgetError if the requests
        together are not expected to fit.
        """
        process = self.database.process_name

        def work(connection: Connection) -> list[str] | None:
            spent = self.spent(connection)
            reserved, others = self._reserved(connection)
            left = self.usd - spent - reserved
            expected = sum(cost.expected for cost in costs.values())
            amounts = _fitting(costs, left) if expected <= left and left > 0 else {}
            if not amounts and not others:
                if expected > left or left <= 0:
                    raise self.error(spent, reserved, expected)
                amounts = {next(iter(costs)): left}  # the whole rest, so that it goes alone
            if not amounts:
                # An earlier try may have reserved them, if only its confirmation was lost.
                _cancel(connection, list(costs))
                return None
            row = {"store": self.store, "corpus": self.corpus, "process": process}
            rows = [{"id": name, "usd": usd, **row} for name, usd in amounts.items()]
            connection.execute(self.database.upsert(reservations, "usd", "process"), rows)
            return list(amounts)

        return self.database.write(work, self.lock)

    def _reserved(self, connection: Connection) -> tuple[float, bool]:
        """Return the USD reserved, and whether a living process may give some of it back."""
        query: Any = (
            select(func.sum(reservations.c.usd).label("usd"), processes)
            .outerjoin_from(reservations, processes, reservations.c.process == processes.c.process)
            .where(reservations.c.store == self.store, reservations.c.corpus == self.corpus)
            .group_by(*processes.columns)
        )
        rows = connection.execute(query).all()
        now = self.database.now(connection) if rows else 0.0
        others = any(row.process is not None and is_alive(row, now) for row in rows)
        return sum(row.usd for row in rows), others

    def error(self, spent: float, reserved: float, more: float) -> BudgetError:
        """Return the error that names the USD spent, reserved, and needed for more calls."""
        has = f"{self.corpus} has cost {spent:.4f} USD"
        if reserved:
            has += f", and up to {reserved:.4f} USD more by calls whose cost is unknown"
        if spent + reserved >= self.usd:
            reason = f"budget_usd {self.usd:g} is reached: {has}"
        else:
            reason = f"about {more:.4f} USD more would go over budget_usd {self.usd:g}: {has}"
        return BudgetError(f"{reason}; finished work is kept, raise budget_usd to go on")

    def cancel(self, names: Sequence[str]) -> None:
        """Delete reservations."""
        self.database.write(lambda connection: _cancel(connection, names))

    def keep(self, names: Sequence[str]) -> None:
        """Count reservations as spent, because the costs of their calls are unknown."""

        def work(connection: Connection) -> None:
            for part in parts(names):
                kept = update(reservations).where(reservations.c.id.in_(part))
                connection.execute(kept.values(process=""))

        self.database.write(work)


def _fitting(costs: Mapping[str, Cost], left: float) -> dict[str, float]:
    """Return the highest costs of the first requests, as many as fit."""
    fitting: dict[str, float] = {}
    for name, cost in costs.items():
        left -= cost.most
        if left < 0:
            break
        fitting[name] = cost.most
    return fitting


def settle(connection: Connection) -> None:
    """Delete the reservation of the call that is charged in this transaction, if it has one."""
    name = _current.get()
    if name is not None:
        _cancel(connection, [name])


def _cancel(connection: Connection, names: Sequence[str]) -> None:
    for part in parts(names):
        connection.execute(delete(reservations).where(reservations.c.id.in_(part)))


def settling(name: str) -> AbstractContextManager[None]:
    """Let the charge inside the block replace a reservation."""
    return setting(_current, name)
