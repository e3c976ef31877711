"""Describe charged calls by purpose and tokens, and add them up by group."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.costs.prices import ChargedTokens
from rag_pipeline.calls.costs.tokens import Estimate, estimate_of

CallKind = Literal["chat", "embedding", "rerank"]
Group = Literal["asset", "model", "configuration", "day"]
GROUPS: tuple[str, ...] = get_args(Group)
_NOBODY = "-"
Readers = Callable[[str, str], Iterable[str]]
"""Returns the configurations that now read an asset's partition."""


class Charge(NamedTuple):
    """One call of the ledger; `usd` is None if the price is unknown."""

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


@dataclass(slots=True)
class Totals:
    """The tokens and cost of some calls.

    `unpriced` counts calls without a known price. `usd` leaves out these calls. `sent` counts the
    prompts, embedded texts and reranked queries in all requests, including repeated requests.
    """

    sent: int = 0
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
        """Add other totals to these totals."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def add(self, charge: Charge) -> None:
        """Add the tokens and the cost of one call."""
        self.calls += 1
        self.input_tokens += charge.input
        self.cached_tokens += charge.cached
        self.output_tokens += charge.output
        self.searches += charge.searches
        self.usd += charge.usd or 0.0
        self.unpriced += charge.usd is None


def totals_by(charges: Iterable[Charge], by: Group, readers: Readers) -> dict[str, Totals]:
    """Return the totals of each group, in the order of the groups' first calls.

    If `by` is `configuration`, a call counts for each configuration that read its result when the
    call was made, or reads it now. So the costs of all groups may exceed the paid costs.
    """
    found: dict[str, Totals] = {}
    for charge in charges:
        for name in _groups_of(charge, by, readers):
            found.setdefault(name, Totals()).add(charge)
    return found


def _groups_of(charge: Charge, by: Group, readers: Readers) -> Iterable[str]:
    match by:
        case "asset":
            return [" ".join(part for part in (charge.asset, charge.partition) if part) or _NOBODY]
        case "model":
            return [f"{charge.provider} {charge.model}" + (" (batch)" if charge.batch else "")]
        case "day":
            return [charge.time[:10]]
        case "configuration":
            if not charge.asset:
                return [_NOBODY]
            now = readers(charge.asset, charge.partition)
            return dict.fromkeys((*now, *charge.configurations)) or [_NOBODY]


@dataclass(frozen=True, slots=True)
class Purpose:
    """The asset, partition and configurations that need some calls."""

    asset: str = ""
    partition: str = ""
    configurations: tuple[str, ...] = ()


meter: ContextVar["Totals | None"] = ContextVar("meter", default=None)
purpose: ContextVar[Purpose] = ContextVar("purpose", default=Purpose())  # noqa: B039 - frozen
request: ContextVar["Request | None"] = ContextVar("request", default=None)


class Request(NamedTuple):
    """The request in flight: its estimate, reservation and highest number of tokens."""

    estimate: Estimate
    reservation: str | None
    most: ChargedTokens | None


@contextmanager
def attributed(
    asset: str, partition: str = "", configurations: Sequence[str] = ()
) -> Iterator[Totals]:
    """Attribute every call inside the block to an asset's partition and its configurations.

    Yield the totals of these calls. The totals are complete when the block ends.
    """
    totals = Totals()
    with setting(purpose, Purpose(asset, partition, tuple(configurations))), setting(meter, totals):
        yield totals


def sent(count: int) -> None:
    """Add to the number of prompts, texts or queries that were sent to a model."""
    if (totals := meter.get()) is not None:
        totals.sent += count


def requesting(
    texts: Sequence[str], reservation: str | None, most: ChargedTokens | None = None
) -> AbstractContextManager[None]:
    """Let the charge inside the block replace the reservation and improve later estimates.

    `most` is charged if the reply names no tokens.
    """
    return setting(request, Request(estimate_of(texts), reservation, most))
