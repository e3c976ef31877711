"""Every paid call with its tokens and its price, who asked for it, and what may still be spent.

Rows are only ever added, each in a transaction of its own, to one SQLite file beside the call
cache; threads and processes share it, so a budget holds for all of them together.
"""

import json
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import uuid4

from rag_pipeline.calls.costs import reservations
from rag_pipeline.calls.costs.prices import FREE, Price, Prices, Tokens, load_prices, vendor
from rag_pipeline.calls.costs.reservations import Cost, Purse
from rag_pipeline.calls.databases import open_database
from rag_pipeline.calls.sharing import Record, open_outbox, post
from rag_pipeline.errors import BudgetError, StoreError

_POLL_SECONDS = 0.2
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
            if self.budget_usd is not None:
                reservations.settle(connection)
            if added and self.shares:
                value = json.dumps(values).encode()
                post(connection, [Record("charge", call_id.encode(), value)])
        meter = _meter.get()
        if meter is not None:
            meter.add(row)

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

    def reserve(self, name: str, provider: str, model: str, expected: Tokens, most: Tokens) -> bool:
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
        self, provider: str, model: str, requests: Mapping[str, tuple[Tokens, Tokens]]
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
        return Purse(self.corpus, self.budget_usd, self._spent_in)

    def _price(self, provider: str, model: str) -> Price:
        """Return a model's price; raise BudgetError where it is unknown: no budget holds then."""
        price = self.prices.price(provider, model)
        if price is None:
            raise BudgetError(
                f"{provider}: {model}: its price is unknown, so budget_usd "
                f"{self.budget_usd:g} can't be held; name a file with its price under `prices`, "
                f"or leave the budget out"
            )
        return price

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
                connection.execute(reservations.TABLE)
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


def require_budget(provider: str, model: str, base_url: str | None = None) -> None:
    """Raise BudgetError where no more calls may be paid for."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.require(vendor(provider, base_url), model)


@asynccontextmanager
async def paying(
    provider: str,
    model: str,
    expected: Tokens,
    most: Tokens | None = None,
    base_url: str | None = None,
) -> AsyncIterator[None]:
    """Hold the budget over one request, which is sent and charged (`record`) inside the block.

    Sets aside what it may use at most (`expected` without it); waits for other calls to be settled
    where it might not fit. Raises BudgetError where it is not expected to fit.
    """
    ledger = _ledger.get()
    if ledger is None or ledger.budget_usd is None:
        yield
        return
    name, server = uuid4().hex, vendor(provider, base_url)
    limit = most or expected
    async with reservations.held(
        name,
        lambda: ledger.reserve(name, server, model, expected, limit),
        lambda: ledger.release([name]),
        lambda: ledger.forfeit([name]),
    ):
        yield


def reserve_batch(
    provider: str,
    model: str,
    requests: Mapping[str, tuple[Tokens, Tokens]],
    base_url: str | None = None,
    *,
    wait: bool = True,
) -> list[str]:
    """Set money aside for requests of a batch by name; return the first ones, those that fit.

    Where none fits yet, waits for other calls to be settled, or returns none. Raises BudgetError
    where all together are not expected to fit.
    """
    ledger = _ledger.get()
    if ledger is None:
        return list(requests)
    while True:
        found = ledger.reserve_batch(vendor(provider, base_url), model, requests)
        if found is not None or not wait:
            return found or []
        time.sleep(_POLL_SECONDS)


def release(names: Sequence[str]) -> None:
    """Give back what was set aside for requests that will not be charged any more."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.release(names)


def forfeit(names: Sequence[str]) -> None:
    """Count what was set aside for requests as spent until they are charged or released."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.forfeit(names)
