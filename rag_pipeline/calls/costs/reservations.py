"""Money that is reserved for calls before they are sent, so that together they keep a budget.

A reservation is a row beside the charges. It is made in one transaction with the look at what is
spent and reserved, and the charge of its call replaces it. It holds the most that the call may
cost. Near the end of the budget, a call that is expected to fit, but may not, waits until nothing
else is on its way, and goes alone: so the error of one estimate is the most by which a budget is
passed. What a killed process has reserved counts as spent, for the provider may have billed it.
"""

from collections.abc import Mapping, Sequence
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
    """What a call is expected to cost and what it may cost at most, in USD."""

    expected: float
    most: float


class Budget(NamedTuple):
    """What a corpus may spend, what it has spent and what is reserved, in USD."""

    corpus: str
    budget: float
    spent: float
    reserved: float
    others: bool
    """Whether a living process has reserved some of it, and may give it back."""

    @property
    def left(self) -> float:
        """Return what may be reserved now, in USD."""
        return self.budget - self.spent - self.reserved

    def error(self, more: float) -> BudgetError:
        """Return the error that tells what was spent, and what more a call would have cost."""
        has = f"{self.corpus} has cost {self.spent:.4f} USD"
        if self.reserved:
            has += f", and up to {self.reserved:.4f} USD more by calls whose cost was never told"
        if self.spent + self.reserved >= self.budget:
            reason = f"budget_usd {self.budget:g} is reached: {has}"
        else:
            reason = f"about {more:.4f} USD more would go over budget_usd {self.budget:g}: {has}"
        return BudgetError(f"{reason}; what was done is kept, raise budget_usd to go on")

    def amount_for(self, cost: Cost) -> float | None:
        """Return the amount to reserve for one call, None if it must wait for other calls.

        Raises BudgetError where the call is not expected to fit.
        """
        if cost.most <= self.left:
            return cost.most
        if self.others:
            return None
        if self.left <= 0 or cost.expected > self.left:
            raise self.error(cost.expected)
        return self.left  # all of it, so that the call goes alone

    def amounts_for(self, costs: Mapping[str, Cost]) -> dict[str, float] | None:
        """Return the amounts to reserve for the first requests of a batch, None to wait.

        Raises BudgetError where all together are not expected to fit, or not even one fits.
        """
        expected = sum(cost.expected for cost in costs.values())
        if expected > self.left:
            if self.others:
                return None
            raise self.error(expected)
        fitting: dict[str, float] = {}
        left = self.left
        for name, cost in costs.items():
            left -= cost.most
            if left < 0:
                break
            fitting[name] = cost.most
        if not fitting:
            if self.others:
                return None
            raise self.error(next(iter(costs.values())).most)
        return fitting


def reserved(
    database: Database, connection: Connection, store: str, corpus: str
) -> tuple[float, bool]:
    """Return the sum of a corpus's reservations, and whether a living process has some of them."""
    query: Any = (
        select(func.sum(reservations.c.usd).label("usd"), processes)
        .outerjoin_from(reservations, processes, reservations.c.process == processes.c.process)
        .where(reservations.c.store == store, reservations.c.corpus == corpus)
        .group_by(*processes.columns)
    )
    rows = connection.execute(query).all()
    now = database.now(connection) if rows else 0.0
    others = any(row.process is not None and is_alive(row, now) for row in rows)
    return sum(row.usd for row in rows), others


def add(
    database: Database,
    connection: Connection,
    store: str,
    corpus: str,
    process: str,
    amounts: Mapping[str, float],
) -> None:
    """Reserve amounts in USD by name."""
    insert = database.insert(reservations)
    changed = {name: insert.excluded[name] for name in ("usd", "process")}
    rows = [
        {"id": name, "store": store, "corpus": corpus, "usd": usd, "process": process}
        for name, usd in amounts.items()
    ]
    connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed), rows)


def settle(connection: Connection) -> None:
    """Delete the reservation of the call that is charged in this transaction, if there is one."""
    name = _current.get()
    if name is not None:
        cancel(connection, [name])


def cancel(connection: Connection, names: Sequence[str]) -> None:
    """Delete reservations."""
    for part in parts(names):
        connection.execute(delete(reservations).where(reservations.c.id.in_(part)))


def keep(connection: Connection, names: Sequence[str]) -> None:
    """Count reservations as spent: nobody will tell what their calls cost."""
    for part in parts(names):
        kept = update(reservations).where(reservations.c.id.in_(part))
        connection.execute(kept.values(process=""))


def settling(name: str) -> AbstractContextManager[None]:
    """Let the charge inside the block replace a reservation."""
    return setting(_current, name)
