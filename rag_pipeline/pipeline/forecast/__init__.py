"""What a run would do and what it would cost, found by running its steps dry.

The builders of the tables, the search and the judges themselves run, on a `DryWorkspace`: what they
write stays in memory, and a call that they would make is noted where its key is looked up in the
call cache (`calls.recording`). What rests on a reply that does not exist yet is estimated or not
known, and says so.
"""

from rag_pipeline.pipeline.forecast.budget import (
    ERROR,
    Outlook,
    hold_budget,
    hold_budget_of_step,
    is_known,
)
from rag_pipeline.pipeline.forecast.payees import called_vendor, pays
from rag_pipeline.pipeline.forecast.staleness import made_from, stale_steps
from rag_pipeline.pipeline.forecast.steps import RERANKING, Forecast, forecast, needed_calls

__all__ = [
    "ERROR",
    "RERANKING",
    "Forecast",
    "Outlook",
    "called_vendor",
    "forecast",
    "hold_budget",
    "hold_budget_of_step",
    "is_known",
    "made_from",
    "needed_calls",
    "pays",
    "stale_steps",
]
