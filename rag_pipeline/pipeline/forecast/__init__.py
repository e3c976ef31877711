"""What a run would do and what it would cost, found by running its steps dry.

The builders of the tables, the search and the judges themselves run, on a `DryWorkspace`: what they
write stays in memory, and a call that they would make is noted where its key is looked up in the
call cache (`calls.recording`). What rests on a reply that does not exist yet is estimated or not
known, and says so.
"""

from rag_pipeline.pipeline.forecast.budget import ERROR as ERROR
from rag_pipeline.pipeline.forecast.budget import Outlook as Outlook
from rag_pipeline.pipeline.forecast.budget import hold_budget as hold_budget
from rag_pipeline.pipeline.forecast.budget import is_known as is_known
from rag_pipeline.pipeline.forecast.payees import called_vendor as called_vendor
from rag_pipeline.pipeline.forecast.payees import pays as pays
from rag_pipeline.pipeline.forecast.staleness import made_from as made_from
from rag_pipeline.pipeline.forecast.staleness import stale_steps as stale_steps
from rag_pipeline.pipeline.forecast.steps import RERANKING as RERANKING
from rag_pipeline.pipeline.forecast.steps import Forecast as Forecast
from rag_pipeline.pipeline.forecast.steps import forecast as forecast
from rag_pipeline.pipeline.forecast.steps import needed_calls as needed_calls
