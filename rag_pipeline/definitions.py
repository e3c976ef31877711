"""What Dagster loads: every corpus, and how its runs are executed."""

import warnings
from pathlib import Path

import dagster as dg

from rag_pipeline.config import load_config
from rag_pipeline.config.finding import corpus_files
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor
from rag_pipeline.orchestration.secrets import load_secrets

# Dagster says this of its own code whenever it loads asset checks; no user can help it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora.

    In a checkout these are the corpora under `defs/`; of an installed package, those whose files
    lie in the working directory, where `rag` finds them, too.

    Runs do their steps in one process: on one machine that is fastest, as every further process
    imports the project and opens the models again. RAG_EXECUTOR names another executor, and the
    shards of an index are built wherever it puts them.
    """
    load_secrets()
    package = Path(__file__).parent
    if (package.parent / "pyproject.toml").is_file():
        corpora = [dg.load_from_defs_folder(path_within_project=package)]
    else:
        corpora = [build_definitions(load_config(file)) for file, _ in corpus_files()]
    return dg.Definitions.merge(*corpora, dg.Definitions(executor=chosen_executor()))
