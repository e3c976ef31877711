"""Every paid call with its tokens and its price, who asked for it, and what may still be spent.

Charges are only ever added, each in a transaction of its own. Threads, processes and machines that
use the same database share them, so that a budget holds for all of them together.
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

from rag_pipeline.calls.costs import learning, purposes, reservations
from rag_pipeline.calls.costs.encodings import encoder
from rag_pipeline.calls.costs.learning import Calls
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
    """The store's address, in a database that several stores may share."""
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
        charge = Charge(
            now, self.corpus, purpose.asset, purpose.partition, purpose.configurations,
            kind, provider, model,
            tokens.input, tokens.cached, tokens.output, tokens.searches, batch, usd,
        )  # fmt: skip
        row = _row(charge, call_id or uuid4().hex, self.store)
        insert = self.database.insert(charges).on_conflict_do_nothing()
        calls = Calls(self.corpus, provider, model, kind)

        def work(connection: Connection) -> None:
            added = connection.execute(insert, row).rowcount
            if self.budget_usd is not None:
                reservations.settle(connection)
            if added:
                learning.learn(self.database, connection, calls, tokens)

        # Ids are read in the order in which charges are committed: see `_new_charges`.
        self.database.write(work, self._account)
        meter = purposes.meter.get()
        if meter is not None:
            meter.add(charge)
        return usd

    def spent(self) -> float:
        """Return what the corpus has cost so far in USD, by every process."""
        with self._lock:
            return self._added(self.database.read(self._new_charges))

    def _spent_in(self, connection: Connection) -> float:
        with self._lock:
            return self._added(connection.execute(self._new_charges).all())

    @property
    def _new_charges(self) -> Select[Any]:
        """Return the query of the sum of the charges that this object has not added yet."""
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
        """Return the lock of the transactions that read or change what this corpus has spent."""
        return f"ledger {self.store} {self.corpus}"

    # --- budget ---

    def require(self, provider: str, model: str) -> None:
        """Raise BudgetError where no more calls to a model may be paid for."""
        if self.budget_usd is not None and self._price(provider, model) != FREE:
            budget = Budget(self.corpus, self.budget_usd, self.spent(), 0.0, others=False)
            if budget.left <= 0:
                raise budget.error(0.0)

    def reserve(
        self, name: str, provider: str, model: str, expected: ChargedTokens, most: ChargedTokens
    ) -> bool:
        """Reserve what one call may cost; return False if it must wait for other calls to end.

        Raises BudgetError where it doesn't fit, and for a model without a price.
        """
        price = None if self.budget_usd is None else self._price(provider, model)
        if price is None or price == FREE:
            return True
        cost = Cost(price.usd(expected), price.usd(most))
        process = self.database.process_name

        def work(connection: Connection) -> bool:
            amount = self._budget_in(connection).amount_for(cost)
            amounts = None if amount is None else {name: amount}
            self._reserve(connection, process, [name], amounts)
            return amount is not None

        return self.database.write(work, self._account)

    def reserve_batch(
        self, provider: str, model: str, requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]]
    ) -> list[str] | None:
        """Reserve what requests of a batch may cost: as many as fit, None to wait for others.

        `requests` has what each is expected to use, and the most. Raises BudgetError as `reserve`.
        """
        price = None if self.budget_usd is None else self._price(provider, model)
        if price is None or price == FREE:
            return list(requests)
        costs = {
            name: Cost(price.usd(expected, batch=True), price.usd(most, batch=True))
            for name, (expected, most) in requests.items()
        }
        process = self.database.process_name

        def work(connection: Connection) -> list[str] | None:
            amounts = self._budget_in(connection).amounts_for(costs)
            self._reserve(connection, process, list(costs), amounts)
            return None if amounts is None else list(amounts)

        return self.database.write(work, self._account)

    def _budget_in(self, connection: Connection) -> Budget:
        assert self.budget_usd is not None
        spent = self._spent_in(connection)
        held = reservations.reserved(self.database, connection, self.store, self.corpus)
        return Budget(self.corpus, self.budget_usd, spent, *held)

    def _reserve(
        self,
        connection: Connection,
        process: str,
        names: Sequence[str],
        amounts: Mapping[str, float] | None,
    ) -> None:
        if amounts is None:
            # A transaction of which only the confirmation was lost may have reserved them.
            reservations.cancel(connection, names)
        else:
            reservations.add(self.database, connection, self.store, self.corpus, process, amounts)

    def cancel_reservations(self, names: Sequence[str]) -> None:
        """Give back what was reserved for calls that will not be charged."""
        if self.budget_usd is not None:
            self.database.write(lambda connection: reservations.cancel(connection, names))

    def keep_reservations(self, names: Sequence[str]) -> None:
        """Count what was reserved for calls as spent, unless they have been charged."""
        if self.budget_usd is not None:
            self.database.write(lambda connection: reservations.keep(connection, names))

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

    # --- reading ---

    def learned(self, provider: str, model: str, kind: CallKind, asset: str) -> Learned:
        """Return what is known of a model's tokens, and of the length of an asset's replies."""
        found = Learned()
        if self.database.exists:  # a plan makes no file
            calls = Calls(self.corpus, provider, model, kind)
            found = learning.learned(self.database, calls, asset)
        encode = encoder(model)
        return found if encode is None else replace(found, count=Sampled(encode))

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Yield the corpus's calls in the order they were made, those after a position."""
        query = select(*(charges.c[name] for name in COLUMNS))
        query = query.where(*self._mine, charges.c.id > after).order_by(charges.c.id)
        for row in self.database.read(query):
            charge = Charge(*row)
            configurations = tuple(json.loads(row.configurations))
            yield charge._replace(configurations=configurations, batch=bool(charge.batch))

    def position(self) -> int:
        """Return where the ledger ends now, for `charges(after=)`."""
        return int(self.database.read(select(func.coalesce(func.max(charges.c.id), 0)))[0][0])

    def take_over(self, own: Database) -> None:
        """Move the charges of a database of this machine alone into this one."""
        if not own.exists:
            return
        query = select(*(c for c in charges.columns if c.name not in ("id", "store")))
        rows = own.read(query.order_by(charges.c.id))
        if rows:
            insert = self.database.insert(charges).on_conflict_do_nothing()
            moved = [{**row._mapping, "store": self.store} for row in rows]
            self.database.write(lambda connection: connection.execute(insert, moved))
            own.write(lambda connection: connection.execute(delete(charges)))


def _row(charge: Charge, call_id: str, store: str) -> dict[str, Any]:
    values = charge._replace(configurations=json.dumps(charge.configurations))  # type: ignore[arg-type]
    stored = values._asdict() | {"batch": int(charge.batch)}
    return {**stored, "call_id": call_id, "store": store, "hash": _hash(values)}


def is_whole(values: Sequence[Any], stored: object) -> bool:
    """Tell whether a charge is what was stored; earlier builds stored some without a hash."""
    try:
        return stored is None or stored == _hash(values)
    except (TypeError, ValueError):  # one flipped bit makes bytes of a text, or a text of a number
        return False


def _hash(values: Sequence[Any]) -> bytes:
    *rest, batch, usd = values  # the database gives back a number where a truth value was stored
    told = json.dumps([*rest, bool(batch), None if usd is None else float(usd)])
    return hashlib.blake2b(told.encode(), digest_size=16).digest()
