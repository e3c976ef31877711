"""What calls to models cost: prices, the ledger of every call, and the budget that it holds."""

from rag_pipeline.calls.costs.ledger import (
    Charge,
    Kind,
    Ledger,
    Totals,
    attributed,
    charging,
    forfeit,
    paying,
    record,
    release,
    require_budget,
    reserve_batch,
)
from rag_pipeline.calls.costs.prices import FREE, Price, Prices, Tokens, load_prices, vendor
from rag_pipeline.calls.costs.report import GROUPS, Group, totals_by
from rag_pipeline.calls.costs.reservations import settling
from rag_pipeline.calls.costs.tokens import (
    ESTIMATE_ERROR,
    USUAL_OUTPUT,
    estimate_tokens,
    most_tokens,
    request_tokens,
)

__all__ = [
    "ESTIMATE_ERROR",
    "FREE",
    "GROUPS",
    "USUAL_OUTPUT",
    "Charge",
    "Group",
    "Kind",
    "Ledger",
    "Price",
    "Prices",
    "Tokens",
    "Totals",
    "attributed",
    "charging",
    "estimate_tokens",
    "forfeit",
    "load_prices",
    "most_tokens",
    "paying",
    "record",
    "release",
    "request_tokens",
    "require_budget",
    "reserve_batch",
    "settling",
    "totals_by",
    "vendor",
]
