"""Define every corpus and the executor of its runs for Dagster."""

import gc
import warnings
from pathlib import Path

from rag_pipeline.memory import collection_paused

with collection_paused():
    import dagster as dg

    from rag_pipeline.config import load_config
    from rag_pipeline.config.parsing import corpus_files, other_settings
    from rag_pipeline.errors import ConfigError, RagPipelineError, blaming
    from rag_pipeline.orchestration.component import build_definitions, definitions_of_mistake
    from rag_pipeline.orchestration.executors import chosen_executor
    from rag_pipeline.orchestration.internals import unstable
    from rag_pipeline.orchestration.names import group_name
    from rag_pipeline.orchestration.secrets import load_secrets

    gc.freeze()  # modules live as long as the process, so the collector need not scan them

# Dagster emits this warning from its own code; users can do nothing about it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora.

    Like `rag`, find corpora in the working directory. If it has none or lies in a checkout, find
    those below the checkout's folder. A corpus file with an error does not stop the other corpora:
    a sensor that fails with the error replaces its corpus. In a checkout, also load Python files
    and components of other types under `defs/`.

    By default, a run makes its steps in one process, which is fastest on one machine. RAG_EXECUTOR
    names another executor, which distributes the shards of an index.
    """
    load_secrets()
    package = Path(__file__).parent
    files, is_inside = [*corpus_files()], Path.cwd().is_relative_to(package.parent)
    checkout = (package.parent / "pyproject.toml").is_file() and (is_inside or not files)
    if checkout:
        files = [*corpus_files(package.parent)]
    # If two files define the same corpus, the file or folder with the corpus's name goes first.
    named = sorted(files, key=lambda each: each[1] not in (each[0].stem, each[0].parent.name))
    found, taken = [file for file, _ in named], dict[str, Path]()
    with collection_paused(), unstable():
        tree = dg.ComponentTree.for_project(package) if checkout else None
        folder = package / "defs"
        own = {file for file in found if tree is not None and file.parent.parent == folder}
        built = [_definitions_of(file, taken, tree if file in own else None) for file in found]
        if tree is not None:
            parts = [*folder.rglob("*.py"), *folder.rglob("defs.yaml")]
            names = {part.relative_to(folder).parts[0] for part in parts} - {"__init__.py"}
            built += map(tree.build_defs, sorted(names - {file.parent.name for file in own}))
    return dg.Definitions.merge(*built, dg.Definitions(executor=chosen_executor()))


def _definitions_of(
    file: Path, taken: dict[str, Path], tree: dg.ComponentTree | None
) -> dg.Definitions:
    """Return the definitions of a corpus file, loaded by Dagster's `tree` if it is given."""
    try:
        with blaming(str(file)):
            config = load_config(file)
        if (other := taken.setdefault(group_name(config), file)) is not file:
            raise ConfigError(
                f"{file}: corpus: {config.corpus!r} is also the corpus of {other}; rename one"
            )
        if tree is not None:
            return tree.build_defs(file.parent.name)
        if ignored := other_settings(file):
            raise ConfigError(
                f"{file}: {', '.join(ignored)}: only Dagster projects read these settings; move "
                f"the file to defs/{config.corpus}/defs.yaml of a project"
            )
        with blaming(str(file)):
            return build_definitions(config)
    except RagPipelineError as error:
        return definitions_of_mistake(file, error)
