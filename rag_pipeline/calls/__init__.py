"""Every paid call goes through here: cached, paced, retried, and stopped when a provider is down.

A provider's client makes one attempt and says how it failed (`failures`); `Endpoint.send` keeps to
the rate limits and tries again; `run_bounded` has many calls in flight; `CallCache` keeps what
came back, so that what was asked once is never sent to a model again; and `Claims` lets runs that
want the same at once pay for it once.
"""

from rag_pipeline.calls.cache import CallCache, CallCounts, call_key, count_calls
from rag_pipeline.calls.claims import Claims
from rag_pipeline.calls.endpoint import (
    LONGEST_TIMEOUT,
    Endpoint,
    Received,
    asked_again,
    open_endpoint,
)
from rag_pipeline.calls.failures import failure_of_status, redacted, unreachable
from rag_pipeline.calls.pool import run_bounded, run_calls

__all__ = [
    "LONGEST_TIMEOUT",
    "CallCache",
    "CallCounts",
    "Claims",
    "Endpoint",
    "Received",
    "asked_again",
    "call_key",
    "count_calls",
    "failure_of_status",
    "open_endpoint",
    "redacted",
    "run_bounded",
    "run_calls",
    "unreachable",
]
