"""What calls to models cost: prices, the ledger of every call, and the budget that it holds."""

from rag_pipeline.calls.costs.charging import (
    charging,
    forfeit,
    paying,
    record,
    release,
    require_budget,
    reserve_batch,
)
from rag_pipeline.calls.costs.ledger import Ledger
from rag_pipeline.calls.costs.prices import FREE, ChargedTokens, Price, Prices, load_prices, vendor
from rag_pipeline.calls.costs.purposes import Charge, Kind, Totals, attributed, measuring
from rag_pipeline.calls.costs.report import GROUPS, Group, totals_by
from rag_pipeline.calls.costs.reservations import settling
from rag_pipeline.calls.costs.tokens import (
    ESTIMATE_ERROR,
    USUAL_OUTPUT,
    Learned,
    estimate_tokens,
    estimating,
    framing_tokens,
    most_tokens,
    request_texts,
    request_tokens,
    usual_output,
)

__all__ = [
    "ESTIMATE_ERROR",
    "FREE",
    "GROUPS",
    "USUAL_OUTPUT",
    "Charge",
    "ChargedTokens",
    "Group",
    "Kind",
    "Learned",
    "Ledger",
    "Price",
    "Prices",
    "Totals",
    "attributed",
    "charging",
    "estimate_tokens",
    "estimating",
    "forfeit",
    "framing_tokens",
    "load_prices",
    "measuring",
    "most_tokens",
    "paying",
    "record",
    "release",
    "request_texts",
    "request_tokens",
    "require_budget",
    "reserve_batch",
    "settling",
    "totals_by",
    "usual_output",
    "vendor",
]
