"""Record every paid call with its tokens, cost and purpose, and hold the budget of a corpus.

Charges are only added, each in its own transaction. All threads, processes and machines with the
same database share the charges, so the budget holds for all of them together.

Under a budget, money is reserved for a call before it is sent. A reservation is a row with the
highest possible cost of its call. The transaction that reads the spent and reserved sums also
writes the reservation. The charge of the call replaces it.

Near the end of the budget, the expected cost of a call may fit although its highest cost does not.
Then the call waits until no other call is in flight, and is sent alone. So the budget is exceeded
at most by the error of one estimate. Reservations of a killed process count as spent, because the
provider may bill their calls.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from rag_pipeline.calls import sql
from rag_pipeline.calls.costs import purposes
from rag_pipeline.calls.costs.prices import FREE, ChargedTokens, Price, Prices, load_prices
from rag_pipeline.calls.costs.purposes import CallKind, Charge
from rag_pipeline.calls.costs.tokens import Learned, Sampled, encoder
from rag_pipeline.calls.database import Database, parts
from rag_pipeline.calls.processes import is_alive
from rag_pipeline.errors import BudgetError

COLUMNS = Charge._fields
_LEAST_CALLS, _LEAST_TOKENS = 5, 200
"""Minimum number of calls, and of their estimated tokens, for a learned factor."""
_MOST_FACTOR = 8.0
"""Larger factors, and factors below the inverse, are ignored. Such a server counts other units."""


@dataclass(slots=True)
class Ledger:
    """The charges of one corpus, in a database that all corpora of a store share."""

    database: Database
    corpus: str
    prices: Prices = field(default_factory=load_prices)
    budget_usd: float | None = None
    store: str = ""
    """The address of the store, or "" if only one store uses the database."""
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
        is_estimated: bool = False,
    ) -> float | None:
        """Add a call, unless a call with this `call_id` exists. Return its cost in USD.

        Return None if the price is unknown. `is_estimated` marks the tokens as estimated.
        """
        price = self.prices.price(provider, model)
        usd = None if price is None else price.usd(tokens, batch)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        purpose = purposes.purpose.get()
        charge = Charge(
            now, self.corpus, purpose.asset, purpose.partition, purpose.configurations,
            kind, provider, f"{model} (estimated)" if is_estimated else model,
            tokens.input, tokens.cached, tokens.output, tokens.searches, batch, usd,
        )  # fmt: skip
        row = _row(charge, call_id or uuid4().hex, self.store)

        def work(connection: "sql.Connection") -> None:
            added = connection.execute(self.database.upsert(sql.charges), row).rowcount
            request = purposes.request.get()
            if self.budget_usd is not None and request is not None and request.reservation:
                _cancel(connection, [request.reservation])
            if added and not is_estimated:
                self._learn(connection, self._calls(provider, model, kind), tokens)

        # Under the lock, ids rise in the order of the commits: see `_spent_by`.
        self.database.write(work, self._account)
        if (meter := purposes.meter.get()) is not None:
            meter.add(charge)
        return usd

    def spent(self) -> float:
        """Return the cost of the corpus so far in USD. Charges of all processes count."""
        return self._spent_by(self.database.read)

    def _spent_by(self, read: Callable[["sql.Select[Any]"], Sequence[Any]]) -> float:
        """Add the charges since the last call to the known sum, and return the sum in USD."""
        with self._lock:
            sums = sql.func.sum(sql.charges.c.usd), sql.func.max(sql.charges.c.id)
            ((usd, last),) = read(self._after(self._seen, *sums))
            self._spent += usd or 0.0
            self._seen = last or self._seen
            return self._spent

    def _mine(self, table: "sql.Table") -> tuple[Any, Any]:
        return table.c.store == self.store, table.c.corpus == self.corpus

    def _after(self, position: int, *columns: Any) -> "sql.Select[Any]":
        return sql.select(*columns).where(*self._mine(sql.charges), sql.charges.c.id > position)

    @property
    def _account(self) -> str:
        """Return the name of the lock for transactions that spend this corpus's budget."""
        return f"ledger {self.store} {self.corpus}"

    # --- budget ---

    def require(self, provider: str, model: str) -> None:
        """Raise BudgetError if the budget is spent or the price of a model is unknown."""
        if self.budget_usd is not None and self._price(provider, model) != FREE:
            spent = self.spent()
            if spent >= self.budget_usd:
                raise self._over_budget(spent, 0.0, 0.0)

    def reserve(
        self,
        provider: str,
        model: str,
        requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]],
        batch: bool = False,
    ) -> list[str] | None:
        """Reserve the highest cost of requests. Return the first names that the budget covers.

        `requests` maps names to the expected and the highest number of tokens. Return None if all
        must wait for other calls to end. Raise BudgetError if the budget does not cover the
        expected cost of all requests, or if the model has no price.
        """
        limit = self.budget_usd
        if limit is None or (price := self._price(provider, model)) == FREE:
            return list(requests)
        total = sum(price.usd(expected, batch) for expected, _ in requests.values())
        highest = {name: price.usd(most, batch) for name, (_, most) in requests.items()}
        process = self.database.process_name

        def work(connection: "sql.Connection") -> list[str] | None:
            spent = self._spent_by(lambda query: connection.execute(query).all())
            reserved, others = self._reserved(connection)
            left = limit - spent - reserved
            amounts = _fitting(highest, left) if total <= left and left > 0 else {}
            if not amounts and not others:
                if total > left or left <= 0:
                    raise self._over_budget(spent, reserved, total)
                amounts = {next(iter(highest)): left}  # reserve the whole rest, so no call joins it
            if not amounts:
                # This function runs again if a commit succeeds but its confirmation is lost.
                _cancel(connection, list(highest))
                return None
            row = {"store": self.store, "corpus": self.corpus, "process": process}
            rows = [{"id": name, "usd": usd, **row} for name, usd in amounts.items()]
            connection.execute(self.database.upsert(sql.reservations, "usd", "process"), rows)
            return list(amounts)

        return self.database.write(work, self._account)

    def _reserved(self, connection: "sql.Connection") -> tuple[float, bool]:
        """Return the reserved USD, and whether a running process may still free some of them."""
        held, running = sql.reservations, sql.processes
        query: Any = (
            sql.select(sql.func.sum(held.c.usd).label("usd"), running)
            .outerjoin_from(held, running, held.c.process == running.c.process)
            .where(*self._mine(held))
            .group_by(*running.columns)
        )
        rows = connection.execute(query).all()
        now = self.database.now(connection) if rows else 0.0
        others = any(row.process is not None and is_alive(row, now) for row in rows)
        return sum(row.usd for row in rows), others

    def cancel(self, names: Sequence[str]) -> None:
        """Delete reservations of requests that will not be charged."""
        if self.budget_usd is not None:
            self.database.write(lambda connection: _cancel(connection, names))

    def keep(self, names: Sequence[str]) -> None:
        """Count reservations as spent, because the costs of their calls are unknown."""

        def work(connection: "sql.Connection") -> None:
            for part in parts(names):
                kept = sql.update(sql.reservations).where(sql.reservations.c.id.in_(part))
                connection.execute(kept.values(process=""))

        if self.budget_usd is not None:
            self.database.write(work)

    def _over_budget(self, spent: float, reserved: float, more: float) -> BudgetError:
        has, limit = f"{self.corpus} has cost {spent:.4f} USD", self.budget_usd or 0.0
        if reserved:
            has += f", and calls of unknown cost may add {reserved:.4f} USD"
        if spent + reserved >= limit:
            reason = f"budget_usd {limit:g} is reached: {has}"
        else:
            reason = f"about {more:.4f} USD more would exceed budget_usd {limit:g}: {has}"
        return BudgetError(f"{reason}; finished work is kept; raise budget_usd to continue")

    def _price(self, provider: str, model: str) -> Price:
        price = self.prices.price(provider, model)
        if price is None:
            raise BudgetError(
                f"{provider}: {model}: the price is unknown, so budget_usd "
                f"{self.budget_usd:g} can't be held; set the model's `price` in the corpus file, "
                f"add the price to the file `prices`, or remove the budget"
            )
        return price

    # --- reading ---

    def learned(self, provider: str, model: str, kind: CallKind, asset: str) -> Learned:
        """Return a model's token factors by alphabet and the mean reply length for an asset.

        Few hosted models publish a tokenizer, but each reply names the tokens of its request. The
        sums of estimated and charged tokens give a factor for each alphabet, and so for groups of
        languages. A factor needs at least five calls and 200 estimated tokens. The length is None
        after fewer than five calls.
        """
        encode = encoder(model)
        found = Learned(count=None if encode is None else Sampled(encode))
        if not self.database.exists:  # a plan creates no file
            return found
        calls = self._calls(provider, model, kind)
        counts = sql.select(sql.token_counts).where(
            *(sql.token_counts.c[name] == value for name, value in calls.items()),
            sql.token_counts.c.calls >= _LEAST_CALLS,
            sql.token_counts.c.estimated >= _LEAST_TOKENS,
        )
        known = {row.alphabet: row.input / row.estimated for row in self.database.read(counts)}
        factors = {name: f for name, f in known.items() if 1 / _MOST_FACTOR <= f <= _MOST_FACTOR}
        replies = sql.select(sql.func.count(), sql.func.avg(sql.charges.c.output)).where(
            *(sql.charges.c[name] == value for name, value in calls.items()),
            sql.charges.c.asset == asset,
        )
        ((count, output),) = self.database.read(replies)
        length = round(output) if count >= _LEAST_CALLS and output else None
        return replace(found, factors=factors, output=length)

    def _learn(
        self, connection: "sql.Connection", calls: Mapping[str, str], tokens: ChargedTokens
    ) -> None:
        """Add the tokens of a call to the sums, if its texts are known (see `requesting`)."""
        request = purposes.request.get()
        if request is None or not request.estimate.tokens or not tokens.input:
            return
        estimate = request.estimate
        insert = self.database.insert(sql.token_counts)
        counts = {"calls": 1, "estimated": estimate.tokens, "input": tokens.input}
        sums = {name: sql.token_counts.c[name] + insert.excluded[name] for name in counts}
        upsert = insert.on_conflict_do_update(index_elements=[*calls, "alphabet"], set_=sums)
        connection.execute(upsert, {**calls, "alphabet": estimate.alphabet, **counts})

    def _calls(self, provider: str, model: str, kind: CallKind) -> dict[str, str]:
        return {"corpus": self.corpus, "provider": provider, "model": model, "kind": kind}

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Yield the charges of the corpus after a `position`, oldest first."""
        columns = (sql.charges.c[name] for name in COLUMNS)
        for row in self.database.read(self._after(after, *columns).order_by(sql.charges.c.id)):
            configurations = tuple(json.loads(row.configurations))
            yield Charge(*row)._replace(configurations=configurations, batch=bool(row.batch))

    def sums(self, after: int) -> list[tuple[tuple[str, ...], int, float]]:
        """Return the number and cost in USD of the calls after a `position`.

        The calls are grouped by kind, provider, model and asset.
        """
        by = [sql.charges.c[name] for name in ("kind", "provider", "model", "asset")]
        sums = sql.func.count(), sql.func.sum(sql.charges.c.usd)
        rows = self.database.read(self._after(after, *by, *sums).group_by(*by))
        return [(tuple(row[:4]), row[4], row[5] or 0.0) for row in rows]

    def position(self) -> int:
        """Return the id of the newest charge, or 0. The result is an `after` for later reads."""
        ((newest,),) = self.database.read(sql.select(sql.func.max(sql.charges.c.id)))
        return newest or 0

    def take_over(self, own: Database) -> None:
        """Move the charges of `own`, a database of only this machine, into this ledger."""
        if not own.exists:
            return
        columns = (c for c in sql.charges.columns if c.name not in ("id", "store"))
        rows = own.read(sql.select(*columns).order_by(sql.charges.c.id))
        if rows:
            moved = [{**row._mapping, "store": self.store} for row in rows]
            insert = self.database.upsert(sql.charges)
            self.database.write(lambda connection: connection.execute(insert, moved))
            own.write(lambda connection: connection.execute(sql.delete(sql.charges)))


def _fitting(highest: Mapping[str, float], left: float) -> dict[str, float]:
    """Return by name the highest costs of the first requests that `left` USD cover together."""
    fitting: dict[str, float] = {}
    for name, cost in highest.items():
        left -= cost
        if left < 0:
            break
        fitting[name] = cost
    return fitting


def _cancel(connection: "sql.Connection", names: Sequence[str]) -> None:
    for part in parts(names):
        connection.execute(sql.delete(sql.reservations).where(sql.reservations.c.id.in_(part)))


def _row(charge: Charge, call_id: str, store: str) -> dict[str, Any]:
    values = charge._replace(configurations=json.dumps(charge.configurations))  # type: ignore[arg-type]
    stored = values._asdict() | {"batch": int(charge.batch)}
    return {**stored, "call_id": call_id, "store": store, "hash": _hash(values)}


def is_whole(values: Sequence[Any], stored: object) -> bool:
    """Return whether a charge matches its hash, or has none, as in earlier versions."""
    try:
        return stored is None or stored == _hash(values)
    except (TypeError, ValueError):  # one changed bit can change the type of a value
        return False


def _hash(values: Sequence[Any]) -> bytes:
    *rest, batch, usd = values  # the database returns 0 or 1 for `batch`
    content = json.dumps([*rest, bool(batch), None if usd is None else float(usd)])
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
