"""Every paid call with its tokens and its price, who asked for it, and what may still be spent.

Rows are only ever added, each in a transaction of its own, to one SQLite file beside the call
cache; threads and processes share it, so a budget holds for all of them together.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import uuid4

from rag_pipeline.calls.costs.prices import FREE, Prices, Tokens, load_prices, vendor
from rag_pipeline.calls.databases import open_database
from rag_pipeline.calls.sharing import Record, open_outbox, post
from rag_pipeline.errors import BudgetError, StoreError

Kind = Literal["chat", "embedding", "rerank"]

_TABLE = """
CREATE TABLE IF NOT EXISTS charges (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, corpus TEXT NOT NULL, asset TEXT NOT NULL, partition TEXT NOT NULL,
  configurations TEXT NOT NULL, kind TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
  searches INTEGER NOT NULL, batch INTEGER NOT NULL, usd REAL, call_id TEXT UNIQUE
)
"""


class Charge(NamedTuple):
    """One call of the ledger; `usd` is None where the price is unknown."""

    time: str
    corpus: str
    asset: str
    partition: str
    configurations: tuple[str, ...]
    kind: str
    provider: str
    model: str
    input: int
    cached: int
    output: int
    searches: int
    batch: bool
    usd: float | None


_INSERT = (
    f"INSERT OR IGNORE INTO charges ({', '.join(Charge._fields)}, call_id) "
    f"VALUES ({', '.join('?' * (len(Charge._fields) + 1))})"
)


@dataclass(slots=True)
class Totals:
    """What some calls used and cost; `unpriced` calls are not in `usd`: their price is unknown."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    searches: int = 0
    usd: float = 0.0
    unpriced: int = 0

    @property
    def is_known(self) -> bool:
        """Return whether every call has a price."""
        return self.unpriced == 0

    def merge(self, other: "Totals") -> None:
        """Add other totals."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def add(self, charge: Charge) -> None:
        """Add one call."""
        self.calls += 1
        self.input_tokens += charge.input
        self.cached_tokens += charge.cached
        self.output_tokens += charge.output
        self.searches += charge.searches
        self.usd += charge.usd or 0.0
        self.unpriced += charge.usd is None


@dataclass(frozen=True, slots=True)
class _Purpose:
    asset: str = ""
    partition: str = ""
    configurations: tuple[str, ...] = ()


_ledger: ContextVar["Ledger | None"] = ContextVar("ledger", default=None)
_meter: ContextVar["Totals | None"] = ContextVar("meter", default=None)
_purpose: ContextVar[_Purpose] = ContextVar("purpose", default=_Purpose())  # noqa: B039 - frozen


@dataclass(slots=True)
class Ledger:
    """The charges of one corpus, in a file that all corpora of a store share."""

    path: Path
    corpus: str
    prices: Prices = field(default_factory=load_prices)
    budget_usd: float | None = None
    shares: bool = False
    """Whether other machines get its charges, by an `Exchange`."""
    _local: threading.local = field(default_factory=threading.local)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: float = 0.0
    _seen: int = 0

    def record(
        self,
        kind: Kind,
        provider: str,
        model: str,
        tokens: Tokens,
        *,
        batch: bool = False,
        call_id: str | None = None,
    ) -> None:
        """Add a call; one with a `call_id` that is there already is not added again."""
        price = self.prices.price(provider, model)
        usd = None if price is None else price.usd(tokens, batch)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        purpose = _purpose.get()
        row = Charge(
            now, self.corpus, purpose.asset, purpose.partition, purpose.configurations,
            kind, provider, model,
            tokens.input, tokens.cached, tokens.output, tokens.searches, batch, usd,
        )  # fmt: skip
        values = row._replace(configurations=json.dumps(row.configurations))  # type: ignore[arg-type]
        call_id = call_id or uuid4().hex
        with self.connection() as connection:
            added = connection.execute(_INSERT, (*values, call_id)).rowcount
            if added and self.shares:
                value = json.dumps(values).encode()
                post(connection, [Record("charge", call_id.encode(), value)])
        meter = _meter.get()
        if meter is not None:
            meter.add(row)

    def spent(self) -> float:
        """Return what the corpus has cost so far in USD, by every process."""
        with self._lock, self.connection() as connection:
            found = connection.execute(
                "SELECT total(usd), max(id) FROM charges WHERE corpus = ? AND id > ?",
                (self.corpus, self._seen),
            ).fetchone()
            self._spent += found[0]
            self._seen = found[1] or self._seen
            return self._spent

    def require(
        self, provider: str, model: str, expected: Tokens | None = None, batch: bool = False
    ) -> None:
        """Raise BudgetError unless one more call to a model, or the expected ones, may be paid.

        A model without a price may not be called under a budget: nobody could hold it.
        """
        if self.budget_usd is None:
            return
        price = self.prices.price(provider, model)
        if price is None:
            raise BudgetError(
                f"{provider}: {model}: its price is unknown, so budget_usd "
                f"{self.budget_usd:g} can't be held; name a file with its price under `prices`, "
                f"or leave the budget out"
            )
        if price != FREE and self.spent() >= self.budget_usd:
            raise BudgetError(
                f"budget_usd {self.budget_usd:g} is reached: {self.corpus} has cost "
                f"{self.spent():.4f} USD; what was done is kept, raise budget_usd to go on"
            )
        if expected is not None and self.spent() + price.usd(expected, batch) > self.budget_usd:
            raise BudgetError(
                f"about {price.usd(expected, batch):.4f} USD more would go over budget_usd "
                f"{self.budget_usd:g}: {self.corpus} has cost {self.spent():.4f} USD; what was "
                f"done is kept, raise budget_usd to go on"
            )

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Yield the corpus's calls in the order they were made, those after a position."""
        columns = ", ".join(Charge._fields)
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM charges WHERE corpus = ? AND id > ? ORDER BY id",
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

    def adopt(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Add what calls of other machines cost."""
        connection.executemany(_INSERT, ((*json.loads(r.value), r.key.decode()) for r in records))

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open this thread's connection for one transaction. Raises StoreError."""
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = open_database(self.path)
                connection.execute(_TABLE)
                if self.shares:
                    _name_calls(connection)
                    columns = ", ".join(Charge._fields)
                    open_outbox(
                        connection,
                        f"SELECT 'charge', CAST(call_id AS BLOB), json_array({columns}) "
                        f"FROM charges",
                    )
                self._local.connection = connection
            with connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: ledger: {error}") from None


def _name_calls(connection: sqlite3.Connection) -> None:
    """Give charges of before they were shared a name that no other machine's have."""
    with connection:
        connection.execute(
            "UPDATE charges SET call_id = lower(hex(randomblob(16))) WHERE call_id IS NULL"
        )


@contextmanager
def charging(ledger: Ledger) -> Iterator[None]:
    """Charge every call inside the block to a ledger, and hold its budget."""
    token = _ledger.set(ledger)
    try:
        yield
    finally:
        _ledger.reset(token)


@contextmanager
def attributed(
    asset: str, partition: str = "", configurations: Sequence[str] = ()
) -> Iterator[Totals]:
    """Attribute every call inside the block to an asset's partition and its configurations.

    Yields what these calls used and cost, which is complete when the block ends.
    """
    totals = Totals()
    purpose = _purpose.set(_Purpose(asset, partition, tuple(configurations)))
    meter = _meter.set(totals)
    try:
        yield totals
    finally:
        _meter.reset(meter)
        _purpose.reset(purpose)


def record(
    kind: Kind,
    provider: str,
    model: str,
    *,
    base_url: str | None = None,
    input_tokens: int = 0,
    cached_tokens: int = 0,
    output_tokens: int = 0,
    searches: int = 0,
    batch: bool = False,
    call_id: str | None = None,
) -> None:
    """Charge a call that has been answered: to be called once per response, whatever it says.

    `provider` is the vendor (`openai`, `voyage`); with a `base_url` of another server that
    server's host stands in the ledger. Does nothing outside of `charging`.
    """
    ledger = _ledger.get()
    if ledger is not None:
        tokens = Tokens(input_tokens, cached_tokens, output_tokens, searches)
        name = vendor(provider, base_url)
        ledger.record(kind, name, model, tokens, batch=batch, call_id=call_id)


def require_budget(
    provider: str,
    model: str,
    base_url: str | None = None,
    expected: Tokens | None = None,
    batch: bool = False,
) -> None:
    """Raise BudgetError where no more calls may be paid for: to be called before each call.

    Before a batch, with what all of its calls are `expected` to use.
    """
    ledger = _ledger.get()
    if ledger is not None:
        ledger.require(vendor(provider, base_url), model, expected, batch)
