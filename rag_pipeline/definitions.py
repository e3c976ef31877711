"""What Dagster loads: every corpus, and how its runs are executed."""

import gc
import warnings
from pathlib import Path

from rag_pipeline.memory import collection_paused

with collection_paused():
    import dagster as dg

    from rag_pipeline.config import load_config
    from rag_pipeline.config.finding import corpus_files
    from rag_pipeline.errors import ConfigError, RagPipelineError
    from rag_pipeline.orchestration.component import build_definitions, definitions_of_mistake
    from rag_pipeline.orchestration.executors import chosen_executor
    from rag_pipeline.orchestration.names import group_name
    from rag_pipeline.orchestration.secrets import load_secrets
    from rag_pipeline.orchestration.unstable import unstable

    gc.freeze()  # modules live as long as the process: they are not looked through, either

# Dagster says this of its own code whenever it loads asset checks; no user can help it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora.

    They are those that `rag` finds: in a checkout below its folder, of an installed package in the
    working directory. A file with a mistake stops its own corpus: a sensor that fails with the
    mistake stands in its place. In a checkout, components of other types under `defs/` are loaded,
    too.

    Runs do their steps in one process: on one machine that is fastest, as every further process
    imports the project and opens the models again. RAG_EXECUTOR names another executor, and the
    shards of an index are built wherever it puts them.
    """
    load_secrets()
    package = Path(__file__).parent
    checkout = (package.parent / "pyproject.toml").is_file()
    files = corpus_files(package.parent if checkout else Path())
    # Of two files with one name, that goes first whose place says so, too.
    named = sorted(files, key=lambda each: each[1] not in (each[0].stem, each[0].parent.name))
    found, taken = [file for file, _ in named], dict[str, Path]()
    with collection_paused(), unstable():
        built = [_definitions_of(file, taken) for file in found]
        if others := set(package.glob("defs/*/defs.yaml")).difference(found) if checkout else ():
            tree = dg.ComponentTree.for_project(package)
            built += [tree.build_defs(file.parent.name) for file in sorted(others)]
    return dg.Definitions.merge(*built, dg.Definitions(executor=chosen_executor()))


def _definitions_of(file: Path, taken: dict[str, Path]) -> dg.Definitions:
    try:
        config = load_config(file)
        if (other := taken.setdefault(group_name(config), file)) is not file:
            raise ConfigError(f"{file}: corpus: {config.corpus!r} is that of {other}; rename one")
        return build_definitions(config)
    except RagPipelineError as error:
        return definitions_of_mistake(file, error)
