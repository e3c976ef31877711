"""What Dagster loads: every corpus, and how its runs are executed."""

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rag_pipeline.memory import bound_memory, uncollected

with uncollected():
    import dagster as dg

    from rag_pipeline.config import load_config
    from rag_pipeline.config.finding import corpus_files
    from rag_pipeline.errors import ConfigError, RagPipelineError
    from rag_pipeline.orchestration.alerts import build_alert_of_mistake
    from rag_pipeline.orchestration.component import build_definitions
    from rag_pipeline.orchestration.executors import chosen_executor
    from rag_pipeline.orchestration.secrets import load_secrets
    from rag_pipeline.orchestration.unstable import unstable

# Dagster says this of its own code whenever it loads asset checks; no user can help it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", dg.BetaWarning)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora.

    In a checkout these are the corpora under `defs/`; of an installed package, those whose files
    lie in the working directory, where `rag` finds them, too. A file with a mistake stops its own
    corpus: a sensor that fails with the mistake stands in its place.

    Runs do their steps in one process: on one machine that is fastest, as every further process
    imports the project and opens the models again. RAG_EXECUTOR names another executor, and the
    shards of an index are built wherever it puts them.
    """
    bound_memory()
    load_secrets()
    package = Path(__file__).parent
    if (package.parent / "pyproject.toml").is_file():
        tree = dg.ComponentTree.for_project(package)
        found = [
            (file, partial(tree.build_defs, file.parent.name))
            for file in sorted((package / "defs").glob("*/defs.yaml"))
        ]
    else:
        found = [(file, partial(_definitions_of, file)) for file, _ in corpus_files()]
    with uncollected():
        corpora = [_isolated(file, build) for file, build in found]
    return dg.Definitions.merge(*corpora, dg.Definitions(executor=chosen_executor()))


def _definitions_of(file: Path) -> dg.Definitions:
    return build_definitions(load_config(file))


def _isolated(file: Path, build: Callable[[], dg.Definitions]) -> dg.Definitions:
    """Return a corpus's definitions; of one that has a mistake, sensors that tell it."""
    try:
        with unstable():
            return build()
    except Exception as error:
        if not any(isinstance(cause, RagPipelineError) for cause in _causes(error)):
            raise
        message = str(next(c for c in _causes(error) if isinstance(c, RagPipelineError)))
    dg.get_dagster_logger().error(message)
    name = re.sub(r"\W", "_", file.parent.name if file.stem == "defs" else file.stem)

    @dg.sensor(
        name=f"{name}__has_a_mistake",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"{file} can't be read, so nothing of its corpus is here: {message}",
    )
    def has_a_mistake() -> None:
        raise ConfigError(message)

    return dg.Definitions(sensors=[has_a_mistake, *build_alert_of_mistake(file, name, message)])


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
