"""A budget over machines: each may spend what it has been granted, by a register that all share.

The register's entry of a corpus has what was spent before, and of each ledger at work what it has
used and what it may use. A machine asks for more when its calls need it: a share of what is left,
so that it asks seldom, and gives back what it doesn't need. What a machine that is gone was granted
counts as spent, for nobody else knows what it has used.
"""

import json
import sqlite3
import time
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from rag_pipeline.calls.registers import Register

TABLE = """
CREATE TABLE IF NOT EXISTS allowances (
  corpus TEXT PRIMARY KEY, ledger TEXT NOT NULL, granted REAL NOT NULL, used REAL NOT NULL
)
"""
_SHARE = 1 / 16
"""Share of the rest of the budget that a machine is granted at once."""
_SEEN_SECONDS = 90.0
"""Time in seconds after which a machine that was not seen is not waited for."""


class Spending(NamedTuple):
    """What is spent, what is set aside, what may be spent now, and whether others may give back."""

    spent: float
    held: float
    room: float
    others: bool


@dataclass(frozen=True, slots=True)
class Allowance:
    """A machine's part of a corpus's budget; all of it in transactions of the ledger's file."""

    register: Register
    corpus: str
    budget: float

    def state(
        self, connection: sqlite3.Connection, need: float, known: float, held: float, others: bool
    ) -> Spending:
        """Return what this machine may spend; ask for more where `need` does not fit.

        `known` is what this machine knows to be spent by all, `held` what its calls on the way may
        use, `others` whether there are such calls.
        """
        row = self._row(connection)
        if row is not None and row.granted - row.used - held >= need:
            return Spending(row.used, held, row.granted - row.used - held, others)
        row = row or _Row(uuid4().hex, 0.0, 0.0)
        found = [Spending(0.0, 0.0, 0.0, others)]
        after = [row]

        def change(content: bytes | None) -> bytes:
            entry: dict[str, Any] = json.loads(content or b"{}") or {"base": known, "ledgers": {}}
            ledgers = entry["ledgers"]
            # What was given back is in the base.
            used = row.used if row.ledger in ledgers else 0.0
            theirs = [of for ledger, of in ledgers.items() if ledger != row.ledger]
            told = entry["base"] + used + sum(of["used"] for of in theirs)
            entry["base"] += max(0.0, known - told)  # by calls that were under no budget
            spent = max(told, known)
            promised = sum(of["granted"] - of["used"] for of in theirs)
            free = self.budget - spent - promised - held
            awaited = any(of["open"] and time.time() - of["seen"] < _SEEN_SECONDS for of in theirs)
            # Who waits for others holds nothing that these may wait for.
            more = 0.0 if need > free and awaited else min(free, max(need, free * _SHARE))
            granted = used + held + more
            ledgers[row.ledger] = {
                "used": used, "granted": granted, "seen": time.time(), "open": others or more > 0
            }  # fmt: skip
            found[0] = Spending(spent, held + promised, more, others or awaited)
            after[0] = _Row(row.ledger, granted, used)
            return json.dumps(entry).encode()

        self.register.update(self._name, change)
        connection.execute(
            "INSERT OR REPLACE INTO allowances VALUES (?, ?, ?, ?)", (self.corpus, *after[0])
        )
        return found[0]

    def shrink(self, connection: sqlite3.Connection, held: float) -> None:
        """Give up here what is not needed; to be committed before it is given back to others."""
        connection.execute(
            "UPDATE allowances SET granted = used + ? WHERE corpus = ?", (held, self.corpus)
        )

    def give_back(self, connection: sqlite3.Connection, held: float) -> None:
        """Let others have what was given up here."""
        row = self._row(connection)
        if row is None or row.granted > row.used + held:
            return

        def change(content: bytes | None) -> bytes | None:
            entry = json.loads(content or b"{}")
            if row.ledger not in entry.get("ledgers", {}):
                return None
            if held:
                entry["ledgers"][row.ledger] |= {
                    "used": row.used, "granted": row.granted, "open": False
                }  # fmt: skip
            else:
                entry["base"] += row.used
                del entry["ledgers"][row.ledger]
            return json.dumps(entry).encode()

        self.register.update(self._name, change)
        if not held:
            connection.execute("DELETE FROM allowances WHERE corpus = ?", (self.corpus,))

    @property
    def _name(self) -> str:
        return f"budget-{self.corpus}.json"

    def _row(self, connection: sqlite3.Connection) -> "_Row | None":
        query = "SELECT ledger, granted, used FROM allowances WHERE corpus = ?"
        found = connection.execute(query, (self.corpus,)).fetchone()
        return None if found is None else _Row(*found)


class _Row(NamedTuple):
    ledger: str
    granted: float
    used: float


def use(connection: sqlite3.Connection, corpus: str, usd: float | None) -> None:
    """Add a call's cost to what this machine has used, if it has an allowance."""
    connection.execute(
        "UPDATE allowances SET used = used + ? WHERE corpus = ?", (usd or 0.0, corpus)
    )
