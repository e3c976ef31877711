"""Load methods and models, of this package and of other packages, from entry points.

A package names its settings classes in its pyproject.toml, in a group for each kind:

    [project.entry-points."rag_pipeline.chunkings"]
    paragraphs = "my_package:ParagraphChunking"

The corpus file names the entry point (`method: paragraphs`). The first read of a corpus file
imports the packages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, distributions
from typing import Any, get_args

from pydantic import GetCoreSchemaHandler
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import CoreSchema, core_schema

from rag_pipeline.config.settings import Settings
from rag_pipeline.errors import ConfigError

CHUNKINGS = "rag_pipeline.chunkings"
CONTEXTUALIZERS = "rag_pipeline.contextualizers"
EMBEDDINGS = "rag_pipeline.embeddings"
CHATS = "rag_pipeline.chats"
RETRIEVERS = "rag_pipeline.retrievers"
RERANKERS = "rag_pipeline.rerankers"
JUDGES = "rag_pipeline.judges"
CONTEXT_JUDGES = "rag_pipeline.context_judges"
ENTITY_EXTRACTORS = "rag_pipeline.entity_extractors"
METRICS = "rag_pipeline.metrics"
ANSWER_METHODS = "rag_pipeline.answer_methods"
ANSWER_SCORES = "rag_pipeline.answer_scores"
COMMANDS = "rag_pipeline.commands"


@cache
def load_group(group: str, kind: type = object) -> Mapping[str, Any]:
    """Return the objects of a group's entry points by name, sorted.

    Raises ConfigError with package and entry point if an object cannot be imported, if it is no
    subclass or instance of `kind`, or if two entry points have the same name.
    """
    found: dict[str, EntryPoint] = {}
    for point in _installed().select(group=group):
        if point.name in found:
            raise ConfigError(
                f"{group}: both {_origin(found[point.name])} and {_origin(point)} provide "
                f"{point.name!r}; uninstall one of them"
            )
        found[point.name] = point
    if not found:
        raise ConfigError(
            f"{group}: no entry points are installed, not even rag_pipeline's own; install the "
            f"package again (in a checkout: pip install -e .)"
        )
    return {name: _loaded(point, kind) for name, point in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class VariantsOf:
    """Marks an annotated settings class as the union of a group's classes.

    The setting `key` selects the class. Its type in each class is `Literal["the name"]`. A model
    with such a field builds the union at its first use. So it needs `defer_build=True`, and
    `default_factory` for a default. All classes of the group must be subclasses of `among`. The
    union leaves out classes that are not subclasses of the annotated class.
    """

    group: str
    key: str
    among: type[Settings] | None = None

    def __get_pydantic_core_schema__(
        self, source: type[Settings], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the union of the group's settings classes, selected by the key."""
        classes = self.classes(source)
        choices = {}
        for name, each in classes.items():
            try:
                choices[name] = handler.generate_schema(each)
            except (PydanticUserError, PydanticUndefinedAnnotation) as error:
                wrong = f"{each.__name__}: {error.message.splitlines()[0]}"
                raise ConfigError(f"{origin(self.group, name)}: {wrong}") from None
        return core_schema.tagged_union_schema(choices, self.key)

    def classes(self, kind: type = Settings) -> Mapping[str, type[Settings]]:
        """Return the group's settings classes by name. Raise ConfigError if one is invalid."""
        loaded: Mapping[str, type[Settings]] = load_group(self.group, self.among or kind)
        classes = {name: each for name, each in loaded.items() if issubclass(each, kind)}
        for name, each in classes.items():
            field = each.model_fields.get(self.key)
            missing = ", ".join(sorted(each.__abstractmethods__))
            wrong = f"does not define {missing}" if missing else ""
            if field is None or get_args(field.annotation) != (name,):
                literal = f'`{self.key}: Literal["{name}"]`'
                wrong = f"must have the setting {literal}, as its entry point is called"
            if wrong:
                raise ConfigError(f"{origin(self.group, name)}: {each.__name__} {wrong}")
        return classes


def origin(group: str, name: str) -> str:
    """Return group, name and package of an entry point, for error messages."""
    (point,) = _installed().select(group=group, name=name)
    return f"{group}: {_origin(point)}"


@cache
def _installed() -> EntryPoints:
    # `entry_points()` reads only the first copy of a distribution's metadata. In a checkout, this
    # may be an old egg-info folder without entry points. Reading names is slow, so only the names
    # of distributions with entry points of this package are read.
    found: dict[tuple[str, str, str], EntryPoint] = {}
    for distribution in distributions():
        points = [p for p in distribution.entry_points if p.group.startswith("rag_pipeline.")]
        name = distribution.name if points else ""
        for point in points:
            found.setdefault((name, point.group, point.name), point)
    return EntryPoints(found.values())


def _loaded(point: EntryPoint, kind: type) -> Any:
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # a package may raise anything when it is imported
        raise ConfigError(
            f"{point.group}: {_origin(point)} can't be imported: {type(error).__name__}: {error}; "
            f"repair or uninstall the package"
        ) from error
    if not (issubclass(loaded, kind) if isinstance(loaded, type) else isinstance(loaded, kind)):
        raise ConfigError(
            f"{point.group}: {_origin(point)} is {loaded!r:.80}, not a {kind.__name__}"
        )
    return loaded


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist else "an unknown package"
    return f"{point.name!r} of {package} ({point.value})"
