"""Charge calls to the ledger that is open, and hold its budget over them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from urllib.parse import urlsplit
from uuid import uuid4

from rag_pipeline.calls import telemetry
from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.costs.ledger import Ledger
from rag_pipeline.calls.costs.prices import ChargedTokens, vendor
from rag_pipeline.calls.costs.purposes import CallKind, measuring
from rag_pipeline.calls.costs.reservations import settling
from rag_pipeline.errors import ProviderError, TransientError

_POLL_SECONDS, _BATCH_POLL_SECONDS = 0.05, 0.2
"""Time in seconds after which a call that waits for the ends of others asks again."""
_ledger: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def charging(ledger: Ledger) -> Iterator[None]:
    """Charge every call inside the block to a ledger, and hold its budget."""
    with setting(_ledger, ledger):
        yield


def record(
    kind: CallKind,
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
    server's host stands in the ledger. Outside of `charging` only telemetry hears of it.
    """
    ledger, usd = _ledger.get(), None
    tokens = ChargedTokens(input_tokens, cached_tokens, output_tokens, searches)
    name = vendor(provider, base_url)
    if ledger is not None:
        usd = ledger.record(kind, name, model, tokens, batch=batch, call_id=call_id)
    counts = {"input": input_tokens, "output": output_tokens, "cached": cached_tokens}
    telemetry.used(kind, name, model, counts, usd, batch)


def require_budget(provider: str, model: str, base_url: str | None = None) -> None:
    """Raise BudgetError where no more calls may be paid for."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.require(vendor(provider, base_url), model)


@asynccontextmanager
async def paying(
    kind: CallKind,
    provider: str,
    model: str,
    expected: ChargedTokens,
    most: ChargedTokens | None = None,
    base_url: str | None = None,
    texts: Sequence[str] = (),
) -> AsyncIterator[None]:
    """Hold the budget over one request, which is sent and charged (`record`) inside the block.

    Sets aside what it may use at most (`expected` without it); waits for other calls to be settled
    where it might not fit. Its charge teaches how many tokens such `texts` have. Raises
    BudgetError where it is not expected to fit.
    """
    ledger, server = _ledger.get(), vendor(provider, base_url)
    address = urlsplit(base_url).hostname if base_url else None
    holding = (
        nullcontext()
        if ledger is None or ledger.budget_usd is None
        else _holding(ledger, server, model, expected, most or expected)
    )
    async with holding:
        with measuring(texts), telemetry.calling(kind, server, model, address):
            yield


@asynccontextmanager
async def _holding(
    ledger: Ledger, server: str, model: str, expected: ChargedTokens, most: ChargedTokens
) -> AsyncIterator[None]:
    name = uuid4().hex
    while not ledger.reserve(name, server, model, expected, most):
        await asyncio.sleep(_POLL_SECONDS)
    with settling(name):
        try:
            yield
        except TransientError as error:
            (ledger.keep_reservations if error.paid else ledger.cancel_reservations)([name])
            raise
        except ProviderError:
            ledger.cancel_reservations([name])
            raise
        except BaseException:
            ledger.keep_reservations([name])  # a call that was cut off may have been billed
            raise
        else:
            ledger.cancel_reservations([name])


def reserve_batch(
    provider: str,
    model: str,
    requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]],
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
        time.sleep(_BATCH_POLL_SECONDS)


def cancel_reservations(names: Sequence[str]) -> None:
    """Give back what was set aside for requests that will not be charged any more."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.cancel_reservations(names)


def keep_reservations(names: Sequence[str]) -> None:
    """Count what was set aside for requests as spent until they are charged or released."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.keep_reservations(names)
