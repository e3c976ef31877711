"""Every paid call with its tokens, its price and its purpose, and the budget of a corpus.

Charges are only added, each in its own transaction. All threads, processes and machines with the
same database share them, so a budget holds for all of them together.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Select, delete, func, select

from rag_pipeline.calls.costs import purposes, reservations
from rag_pipeline.calls.costs.encodings import encoder
from rag_pipeline.calls.costs.learning import Calls, learn, learned
from rag_pipeline.calls.costs.prices import FREE, ChargedTokens, Price, Prices, load_prices
from rag_pipeline.calls.costs.purposes import CallKind, Charge
from rag_pipeline.calls.costs.reservations import Budget, Cost
from rag_pipeline.calls.costs.tokens import Learned, Sampled
from rag_pipeline.calls.database import Database
from rag_pipeline.calls.schema import charges
from rag_pipeline.errors import BudgetError

COLUMNS = Charge._fields


@dataclass(slots=True)
class Ledger:
    """The charges of one corpus, in a database that all corpora of a store share."""

    database: Database
    corpus: str
    prices: Prices = field(default_factory=load_prices)
    budget_usd: float | None = None
    store: str = ""
    """The address of the store, in a database that several stores may share."""
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
        """Add a call, unless a call with this `call_id` exists.

        Return its cost in USD, None if its price is unknown.
        """
        price = self.prices.price(provider, model)
        usd = None if price is None else price.usd(tokens, batch)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        purpose = purposes.purpose.get()
        charge = Charge(
            now, self.corpus, purpose.asset, purpose.partition, purpose.configurations,
            kind, provider, model,
            tokens.input, tokens.cached, tokens.output, tokens.searches, batch, usd,
        )  # fmt: skip
        row = _row(charge, call_id or uuid4().hex, self.store)

        def work(connection: Connection) -> None:
            added = connection.execute(self.database.upsert(charges), row).rowcount
            if self.budget_usd is not None:
                reservations.settle(connection)
            if added:
                calls = Calls(self.corpus, provider, model, kind)
                learn(self.database, connection, calls, tokens)

        # Under the lock, ids rise in the order of the commits: see `_new_charges`.
        self.database.write(work, self._account)
        meter = purposes.meter.get()
        if meter is not None:
            meter.add(charge)
        return usd

    def spent(self) -> float:
        """Return the cost of the corpus so far in USD, by every process."""
        with self._lock:
            return self._added(self.database.read(self._new_charges))

    def _spent_in(self, connection: Connection) -> float:
        with self._lock:
            return self._added(connection.execute(self._new_charges).all())

    @property
    def _new_charges(self) -> Select[Any]:
        """Return the query for the sum of the charges that this object has not added yet."""
        query = select(func.coalesce(func.sum(charges.c.usd), 0.0), func.max(charges.c.id))
        return query.where(*self._mine, charges.c.id > self._seen)

    def _added(self, found: Sequence[Any]) -> float:
        ((usd, last),) = found
        self._spent += usd
        self._seen = last or self._seen
        return self._spent

    @property
    def _mine(self) -> tuple[Any, Any]:
        return charges.c.store == self.store, charges.c.corpus == self.corpus

    @property
    def _account(self) -> str:
        """Return the lock of transactions that read or change the spending of this corpus."""
        return f"ledger {self.store} {self.corpus}"

    # --- budget ---

    @property
    def budget(self) -> Budget | None:
        """Return the budget of the corpus, if it has one."""
        limit = self.budget_usd
        if limit is None:
            return None
        return Budget(self.database, self.store, self.corpus, limit, self._spent_in, self._account)

    def require(self, provider: str, model: str) -> None:
        """Raise BudgetError if no more calls to a model may be paid."""
        budget = self.budget
        if budget is not None and self._price(provider, model) != FREE:
            spent = self.spent()
            if spent >= budget.usd:
                raise budget.error(spent, 0.0, 0.0)

    def reserve(
        self,
        provider: str,
        model: str,
        requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]],
        batch: bool = False,
    ) -> list[str] | None:
        """Reserve the highest possible cost of requests by name; return the names that fit.

        `requests` has the expected and the highest number of tokens. Return None if all must wait
        for other calls to end. Raise BudgetError if the requests together are not expected to
        fit, and for a model without a price.
        """
        budget = self.budget
        price = None if budget is None else self._price(provider, model)
        if budget is None or price is None or price == FREE:
            return list(requests)
        return budget.reserve(
            {
                name: Cost(price.usd(expected, batch), price.usd(most, batch))
                for name, (expected, most) in requests.items()
            }
        )

    def _price(self, provider: str, model: str) -> Price:
        price = self.prices.price(provider, model)
        if price is None:
            raise BudgetError(
                f"{provider}: {model}: its price is unknown, so budget_usd "
                f"{self.budget_usd:g} can't be held; set the model's `price` in the corpus file, "
                f"name a file with it under `prices`, or leave the budget out"
            )
        return price

    # --- reading ---

    def learned(self, provider: str, model: str, kind: CallKind, asset: str) -> Learned:
        """Return the learned tokens of a model, and the usual length of replies for an asset."""
        found = Learned()
        if self.database.exists:  # a plan creates no file
            found = learned(self.database, Calls(self.corpus, provider, model, kind), asset)
        encode = encoder(model)
        return found if encode is None else replace(found, count=Sampled(encode))

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Yield the calls of the corpus after a position, in order."""
        query = select(*(charges.c[name] for name in COLUMNS))
        query = query.where(*self._mine, charges.c.id > after).order_by(charges.c.id)
        for row in self.database.read(query):
            configurations = tuple(json.loads(row.configurations))
            yield Charge(*row)._replace(configurations=configurations, batch=bool(row.batch))

    def position(self) -> int:
        """Return the end of the ledger now, for `charges(after=)`."""
        return int(self.database.read(select(func.coalesce(func.max(charges.c.id), 0)))[0][0])

    def take_over(self, own: Database) -> None:
        """Move the charges from a database of this machine alone into this one."""
        if not own.exists:
            return
        columns = (c for c in charges.columns if c.name not in ("id", "store"))
        rows = own.read(select(*columns).order_by(charges.c.id))
        if rows:
            moved = [{**row._mapping, "store": self.store} for row in rows]
            insert = self.database.upsert(charges)
            self.database.write(lambda connection: connection.execute(insert, moved))
            own.write(lambda connection: connection.execute(delete(charges)))


def _row(charge: Charge, call_id: str, store: str) -> dict[str, Any]:
    values = charge._replace(configurations=json.dumps(charge.configurations))  # type: ignore[arg-type]
    stored = values._asdict() | {"batch": int(charge.batch)}
    return {**stored, "call_id": call_id, "store": store, "hash": _hash(values)}


def is_whole(values: Sequence[Any], stored: object) -> bool:
    """Tell whether a charge has its hash; some charges of earlier builds have none."""
    try:
        return stored is None or stored == _hash(values)
    except (TypeError, ValueError):  # one changed bit changes the type of a value
        return False


def _hash(values: Sequence[Any]) -> bytes:
    *rest, batch, usd = values  # the database returns 0 or 1 for `batch`
    content = json.dumps([*rest, bool(batch), None if usd is None else float(usd)])
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
