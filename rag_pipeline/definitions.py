"""What `workspace.yaml` loads: every corpus under `defs/`, and how its runs are executed."""

import warnings
from pathlib import Path

import dagster as dg

from rag_pipeline.orchestration.executors import chosen_executor
from rag_pipeline.orchestration.secrets import load_secrets

# Dagster says this of its own code whenever it loads asset checks; no user can help it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora.

    Runs do their steps in one process: on one machine that is fastest, as every further process
    imports the project and opens the models again. RAG_EXECUTOR names another executor, and the
    shards of an index are built wherever it puts them.
    """
    load_secrets()
    corpora = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(corpora, dg.Definitions(executor=chosen_executor()))
