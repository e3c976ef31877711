"""Every paid call with its tokens and its price, who asked for it, and what may still be spent.

Rows are only ever added, each in a transaction of its own, to one SQLite file beside the call
cache; threads and processes share it, so a budget holds for all of them together.
"""

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from rag_pipeline.calls.costs import allowances, learning, purposes, reservations
from rag_pipeline.calls.costs.allowances import Allowance
from rag_pipeline.calls.costs.encodings import encoder
from rag_pipeline.calls.costs.prices import FREE, ChargedTokens, Price, Prices, load_prices
from rag_pipeline.calls.costs.purposes import CallKind, Charge
from rag_pipeline.calls.costs.reservations import Cost, Purse
from rag_pipeline.calls.costs.tokens import Learned, Sampled
from rag_pipeline.calls.databases import (
    Connections,
    add_column,
    has_column,
    open_database,
    put_in_place,
    read_damaged,
)
from rag_pipeline.calls.registers import Register
from rag_pipeline.calls.segments import SharedRecord
from rag_pipeline.calls.sharing import open_outbox, post
from rag_pipeline.errors import BudgetError, StoreError

_TABLE = """
CREATE TABLE IF NOT EXISTS charges (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, corpus TEXT NOT NULL, asset TEXT NOT NULL, partition TEXT NOT NULL,
  configurations TEXT NOT NULL, kind TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
  searches INTEGER NOT NULL, batch INTEGER NOT NULL, usd REAL, call_id TEXT UNIQUE
)
"""

_log = logging.getLogger(__name__)

_COLUMNS = ", ".join(Charge._fields)
_INSERT = (
    f"INSERT OR IGNORE INTO charges ({_COLUMNS}, call_id, hash, id) "
    f"VALUES ({', '.join('?' * (len(Charge._fields) + 3))})"
)


@dataclass(slots=True)
class Ledger:
    """The charges of one corpus, in a file that all corpora of a store share."""

    path: Path
    corpus: str
    prices: Prices = field(default_factory=load_prices)
    budget_usd: float | None = None
    shares: bool = False
    """Whether other machines get its charges, by an `Exchange`."""
    register: Register | None = None
    """What holds the budget, and the rate limits, over the machines that share it."""
    _local: Connections = field(default_factory=Connections)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: float = 0.0
    _seen: int = 0

    def record(
        self,
        kind: CallKind,
        provider: str,
        model: str,
        tokens: ChargedTokens,
        *,
        batch: bool = False,
        call_id: str | None = None,
    ) -> float | None:
        """Add a call; one with a `call_id` that is there already is not added again.

        Returns what it cost in USD, None where its price is unknown.
        """
        price = self.prices.price(provider, model)
        usd = None if price is None else price.usd(tokens, batch)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        purpose = purposes.purpose.get()
        row = Charge(
            now, self.corpus, purpose.asset, purpose.partition, purpose.configurations,
            kind, provider, model,
            tokens.input, tokens.cached, tokens.output, tokens.searches, batch, usd,
        )  # fmt: skip
        values = row._replace(configurations=json.dumps(row.configurations))  # type: ignore[arg-type]
        call_id = call_id or uuid4().hex
        with self.connection() as connection:
            added = connection.execute(_INSERT, _row(values, call_id)).rowcount
            if self.budget_usd is not None:
                reservations.settle(connection)
                if added and self.register is not None:
                    allowances.use(connection, self.corpus, usd)
            if added:
                learning.learn(connection, (self.corpus, provider, model, kind), tokens)
            if added and self.shares:
                value = json.dumps(values).encode()
                post(connection, [SharedRecord("charge", call_id.encode(), value)])
        meter = purposes.meter.get()
        if meter is not None:
            meter.add(row)
        return usd

    def spent(self) -> float:
        """Return what the corpus has cost so far in USD, by every process."""
        with self.connection() as connection:
            return self._spent_in(connection)

    def _spent_in(self, connection: sqlite3.Connection) -> float:
        with self._lock:
            found = connection.execute(
                "SELECT total(usd), max(id) FROM charges WHERE corpus = ? AND id > ?",
                (self.corpus, self._seen),
            ).fetchone()
            self._spent += found[0]
            self._seen = found[1] or self._seen
            return self._spent

    def require(self, provider: str, model: str) -> None:
        """Raise BudgetError where no more calls to a model may be paid for."""
        if self.budget_usd is not None and self._price(provider, model) != FREE:
            spent = self.spent()
            if spent >= self.budget_usd:
                raise self._purse.error(spent, 0.0, 0.0)

    def reserve(
        self, name: str, provider: str, model: str, expected: ChargedTokens, most: ChargedTokens
    ) -> bool:
        """Set aside what one call may cost; return False if it must wait for others' ends.

        Raises BudgetError where it doesn't fit, and for a model without a price.
        """
        if self.budget_usd is None:
            return True
        price = self._price(provider, model)
        if price == FREE:
            return True
        with self.connection() as connection:
            cost = Cost(price.usd(expected), price.usd(most))
            return self._purse.reserve(connection, name, cost)

    def reserve_batch(
        self, provider: str, model: str, requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]]
    ) -> list[str] | None:
        """Set aside what requests of a batch may cost: as many as fit, None to wait for others.

        `requests` has what each is expected to use, and the most. Raises BudgetError as `reserve`.
        """
        price = None if self.budget_usd is None else self._price(provider, model)
        if price is None or price == FREE:
            return list(requests)
        costs = {
            name: Cost(price.usd(expected, batch=True), price.usd(most, batch=True))
            for name, (expected, most) in requests.items()
        }
        with self.connection() as connection:
            return self._purse.reserve_some(connection, costs)

    def release(self, names: Sequence[str]) -> None:
        """Give back what was set aside for calls that will not be charged."""
        if self.budget_usd is not None:
            with self.connection() as connection:
                reservations.drop(connection, list(names))

    def forfeit(self, names: Sequence[str]) -> None:
        """Count what was set aside for calls as spent, unless they have been charged."""
        if self.budget_usd is not None:
            with self.connection() as connection:
                reservations.keep(connection, names)

    @property
    def _purse(self) -> Purse:
        assert self.budget_usd is not None
        folder = self.path.with_name(f"{self.path.name}-runs")
        return Purse(self.corpus, self.budget_usd, self._spent_in, folder, self._allowance)

    @property
    def _allowance(self) -> Allowance | None:
        if self.register is None or self.budget_usd is None:
            return None
        return Allowance(self.register, self.corpus, self.budget_usd)

    @property
    def poll_seconds(self) -> float:
        """Return after how long a call that waits for others' ends asks again."""
        return 0.05 if self.register is None else 1.0

    def give_back(self) -> None:
        """Let other machines spend what this one may and has no calls for."""
        allowance = self._allowance
        if allowance is None:
            return
        try:
            for step in (allowance.shrink, allowance.give_back):
                with self.connection() as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    step(connection, reservations.held_by_all(connection, self.corpus))
        except StoreError as error:
            _log.warning("%s; others can't spend what is left of this machine's part", error)

    def _price(self, provider: str, model: str) -> Price:
        """Return a model's price; raise BudgetError where it is unknown: no budget holds then."""
        price = self.prices.price(provider, model)
        if price is None:
            raise BudgetError(
                f"{provider}: {model}: its price is unknown, so budget_usd "
                f"{self.budget_usd:g} can't be held; set the model's `price` in the corpus file, "
                f"name a file with it under `prices`, or leave the budget out"
            )
        return price

    def learned(self, provider: str, model: str, kind: CallKind, asset: str) -> Learned:
        """Return what is known of a model's tokens, and of the length of an asset's replies."""
        found = Learned()
        if self.path.exists():  # a plan makes no file
            with self.connection() as connection:
                found = learning.learned(connection, (self.corpus, provider, model, kind), asset)
        encode = encoder(model)
        return found if encode is None else replace(found, count=Sampled(encode))

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Yield the corpus's calls in the order they were made, those after a position."""
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM charges WHERE corpus = ? AND id > ? ORDER BY id",
                (self.corpus, after),
            ).fetchall()
        for row in rows:
            charge = Charge(*row)
            configurations = tuple(json.loads(row[4]))
            yield charge._replace(configurations=configurations, batch=bool(charge.batch))

    def position(self) -> int:
        """Return where the ledger ends now, for `charges(after=)`."""
        with self.connection() as connection:
            return int(connection.execute("SELECT coalesce(max(id), 0) FROM charges").fetchone()[0])

    kinds = frozenset({"charge"})

    def adopt(self, connection: sqlite3.Connection, records: Sequence[SharedRecord]) -> None:
        """Add what calls of other machines cost."""
        connection.executemany(
            _INSERT, (_row(json.loads(r.value), r.key.decode()) for r in records)
        )

    def rotten(self) -> list[int]:
        """Return the ids of the charges, of any corpus, that are not what was stored."""
        with self.connection() as connection:
            rows = connection.execute(_charges_of(connection))
            return [number for *values, _, stored, number in rows if not _is_whole(values, stored)]

    def forget_rotten(self) -> None:
        """Drop the charges that are not what was stored: nobody knows any more what they were."""
        rotten = [(number,) for number in self.rotten()]
        with self.connection() as connection:
            connection.executemany("DELETE FROM charges WHERE id = ?", rotten)

    def salvage(self) -> None:
        """Put the charges that can be read of a damaged file in its place; stop all runs before."""
        mended = Ledger(self.path.with_name(f".tmp-{self.path.name}"), self.corpus)
        mended.path.unlink(missing_ok=True)
        self.close()
        with mended.connection() as connection:
            for part in read_damaged(self.path, _charges_of):
                connection.executemany(_INSERT, (r for r in part if _is_whole(r[:-3], r[-2])))
        mended.close()
        put_in_place(mended.path, self.path)

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        self._local.close()

    def connection(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open this thread's connection for one transaction, or join the one it is in.

        Raises StoreError.
        """
        return self._local.transaction(f"{self.path}: ledger", self._connect)

    def _connect(self) -> sqlite3.Connection:
        connection = open_database(self.path)
        connection.execute(_TABLE)
        add_column(connection, "charges", "hash", "BLOB")
        reservations.open_table(connection)
        connection.execute(learning.TABLE)
        connection.execute(allowances.TABLE)
        if self.shares:
            _name_calls(connection)
            open_outbox(
                connection,
                f"SELECT 'charge', CAST(call_id AS BLOB), json_array({_COLUMNS}) FROM charges",
            )
        return connection


def _name_calls(connection: sqlite3.Connection) -> None:
    """Give charges of before they were shared a name that no other machine's have."""
    with connection:
        connection.execute(
            "UPDATE charges SET call_id = lower(hex(randomblob(16))) WHERE call_id IS NULL"
        )


def _row(values: Sequence[Any], call_id: str) -> tuple[Any, ...]:
    """Return a charge as it is inserted, with its hash, at the next id."""
    return (*values, call_id, _hash(values), None)


def _charges_of(connection: sqlite3.Connection) -> str:
    stored = "hash" if has_column(connection, "charges", "hash") else "NULL"
    return f"SELECT {_COLUMNS}, call_id, {stored}, id FROM charges"


def _is_whole(values: Sequence[Any], stored: bytes | None) -> bool:
    """Return whether a charge is what was stored, as far as its version tells."""
    try:
        return stored is None or stored == _hash(values)
    except (TypeError, ValueError):  # one flipped bit makes bytes of a text, or a text of a number
        return False


def _hash(values: Sequence[Any]) -> bytes:
    *rest, batch, usd = values  # SQLite gives back a number where a truth value was stored
    told = json.dumps([*rest, bool(batch), None if usd is None else float(usd)])
    return hashlib.blake2b(told.encode(), digest_size=16).digest()
