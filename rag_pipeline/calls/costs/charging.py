"""Charge calls to the ledger of the surrounding block, and keep them within its budget."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit
from uuid import uuid4

from rag_pipeline.calls import telemetry
from rag_pipeline.calls.contexts import setting
from rag_pipeline.calls.costs import purposes
from rag_pipeline.calls.costs.ledger import Ledger
from rag_pipeline.calls.costs.prices import ChargedTokens, vendor
from rag_pipeline.calls.costs.purposes import CallKind, requesting
from rag_pipeline.errors import ProviderError, TransientError

_POLL_SECONDS, _BATCH_POLL_SECONDS = 0.05, 0.2
"""Seconds between two tries of a call, or of a batch, that waits for other calls to end."""
_ledger: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


def charging(ledger: Ledger) -> AbstractContextManager[None]:
    """Charge every call inside the block to a ledger, and keep within the ledger's budget."""
    return setting(_ledger, ledger)


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
    written: bool = False,
) -> None:
    """Charge an answered call. Call this function once for each response, usable or not.

    For counts that a reply does not name, the sent tokens and the longest allowed reply are
    charged. Then the ledger adds `(estimated)` to the model's name. `written` means that the reply
    has a text, whose tokens can't be 0. `provider` is the vendor, such as `openai`. If `base_url`
    names another server, the charge names its host. Outside of `charging`, only telemetry records
    the call.
    """
    ledger, usd = _ledger.get(), None
    tokens = ChargedTokens(input_tokens, cached_tokens, output_tokens, searches)
    name, request = vendor(provider, base_url), purposes.request.get()
    most = request.most if request is not None else None
    named, written = tokens, written or tokens == ChargedTokens()
    if most is not None:
        read = input_tokens or (0 if searches else most.input)
        output = output_tokens or (most.output if written else 0)
        tokens = ChargedTokens(read, cached_tokens, output, searches or most.searches)
    is_estimated = tokens != named
    if ledger is not None:
        usd = ledger.record(
            kind, name, model, tokens, batch=batch, call_id=call_id, is_estimated=is_estimated
        )
    counts = {"input": tokens.input, "output": tokens.output, "cached": tokens.cached}
    telemetry.used(kind, name, model, counts, usd, batch)


def require_budget(provider: str, model: str) -> None:
    """Raise BudgetError if the budget allows no more calls to a model."""
    if (ledger := _ledger.get()) is not None:
        ledger.require(provider, model)


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
    """Reserve money for one request. The block sends and charges (`record`) the request.

    `expected` and `most` are the request's expected and highest number of tokens. If the highest
    cost does not fit the budget, wait for other calls to end. Raise BudgetError if the expected
    cost does not fit. The charge improves later estimates of texts in the alphabet of `texts`.
    """
    server = vendor(provider, base_url)
    address = urlsplit(base_url).hostname if base_url else None
    most = most or expected
    async with _reserving(server, model, expected, most) as name:
        with requesting(texts, name, most), telemetry.calling(kind, server, model, address):
            purposes.sent(len(texts) if kind == "embedding" else 1)
            try:
                yield
            except ProviderError as error:
                error.remove_echo(texts)
                raise


@asynccontextmanager
async def _reserving(
    server: str, model: str, expected: ChargedTokens, most: ChargedTokens
) -> AsyncIterator[str | None]:
    """Yield the name of the reservation, or None without a budget."""
    ledger, name = _ledger.get(), uuid4().hex
    if ledger is None or ledger.budget_usd is None:
        yield None
        return
    while ledger.reserve(server, model, {name: (expected, most)}) is None:
        await asyncio.sleep(_POLL_SECONDS)
    end = ledger.keep  # a call that was cut off may be billed
    try:
        yield name
        end = ledger.cancel
    except ProviderError as error:
        if not (isinstance(error, TransientError) and error.paid):
            end = ledger.cancel
        raise
    finally:
        end([name])


def reserve_batch(
    provider: str,
    model: str,
    requests: Mapping[str, tuple[ChargedTokens, ChargedTokens]],
    base_url: str | None = None,
    *,
    wait: bool = True,
) -> list[str]:
    """Reserve money for requests of a batch. Return the first names that the budget covers.

    `requests` maps names to the expected and the highest number of tokens. The highest cost is
    reserved. If the budget covers no request yet, wait for other calls to end, or return [] if
    `wait` is False. If no other call can free money, the first request gets the rest of the budget.
    Raise BudgetError if the rest is less than the expected cost of all requests, or if the price is
    unknown.
    """
    ledger = _ledger.get()
    if ledger is None:
        return list(requests)
    while True:
        found = ledger.reserve(vendor(provider, base_url), model, requests, batch=True)
        if found is not None or not wait:
            return found or []
        time.sleep(_BATCH_POLL_SECONDS)


def cancel_reservations(names: Sequence[str]) -> None:
    """Free the money that was reserved for requests that will not be charged."""
    if (ledger := _ledger.get()) is not None:
        ledger.cancel(names)


def keep_reservations(names: Sequence[str]) -> None:
    """Count reservations as spent until their requests are charged or cancelled."""
    if (ledger := _ledger.get()) is not None:
        ledger.keep(names)
