"""Plan a run and estimate its cost by a dry run of its steps.

The table builders, the search and the judges run on a `DryWorkspace`. Their results stay in
memory. Their calls are recorded but not made (`calls.recording`). A call that depends on a missing
reply is estimated or unknown.
"""

from rag_pipeline.pipeline.dry_run.durations import START as START
from rag_pipeline.pipeline.dry_run.durations import keep_durations as keep_durations
from rag_pipeline.pipeline.dry_run.durations import measure as measure
from rag_pipeline.pipeline.dry_run.plan import ERROR as ERROR
from rag_pipeline.pipeline.dry_run.plan import RERANKING as RERANKING
from rag_pipeline.pipeline.dry_run.plan import PlannedStep as PlannedStep
from rag_pipeline.pipeline.dry_run.plan import RunPlan as RunPlan
from rag_pipeline.pipeline.dry_run.plan import is_known as is_known
from rag_pipeline.pipeline.dry_run.plan import needed_calls as needed_calls
from rag_pipeline.pipeline.dry_run.plan import plan_run as plan_run
from rag_pipeline.pipeline.dry_run.plan import require_budget as require_budget
from rag_pipeline.pipeline.dry_run.priced_models import called_vendor as called_vendor
from rag_pipeline.pipeline.dry_run.priced_models import pays as pays
