"""Load objects of this package and of other packages by their entry points, on first use."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, distributions
from typing import Any

from rag_pipeline.errors import ConfigError

_log = logging.getLogger(__name__)

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


def load_group(group: str, kind: type = object) -> Mapping[str, Any]:
    """Return the objects of a group's entry points by name, sorted by name.

    Omit objects that can't be loaded (see `broken`). Raise ConfigError if the group is empty.
    """
    return _load(group, kind)[0]


def broken(group: str, kind: type = object) -> Mapping[str, ConfigError]:
    """Return the errors of a group's unusable entry points, by name.

    An entry point is unusable if its object can't be imported, or is not a subclass or instance of
    `kind`. If several packages provide a name, only this package's object is usable.
    """
    return _load(group, kind)[1]


@cache
def _load(group: str, kind: type) -> tuple[Mapping[str, Any], Mapping[str, ConfigError]]:
    points = defaultdict[str, list[EntryPoint]](list)
    for point in _installed().select(group=group):
        points[point.name].append(point)
    if not points:
        raise ConfigError(
            f"{group}: no entry points are installed, not even rag_pipeline's own; install the "
            f"package again (in a checkout: pip install -e .)"
        )
    found: dict[str, Any] = {}
    wrong: dict[str, ConfigError] = {}
    for name, rivals in sorted(points.items()):
        own = []
        try:
            if len(rivals) > 1:  # reading a distribution's name is slow
                own = [p for p in rivals if p.dist and p.dist.name == "rag_pipeline"]
                both = " and ".join(map(_origin, rivals))
                wrong[name] = ConfigError(
                    f"{group}: both {both} provide {name!r}; uninstall one of them"
                )
            if len(chosen := own or rivals) == 1:
                found[name] = _loaded(chosen[0], kind)
        except ConfigError as error:
            wrong[name] = error
    for reason in wrong.values():
        warn_once(str(reason))
    return found, wrong


@cache
def warn_once(message: str) -> None:
    """Log a warning about an installed package, each message once per process."""
    _log.warning("%s", message)


def origin(group: str, name: str) -> str:
    """Describe an entry point by group, name and package, for error messages."""
    *_, point = _installed().select(group=group, name=name)
    return f"{group}: {_origin(point)}"


@cache
def _installed() -> EntryPoints:
    # `entry_points()` reads only the first copy of a distribution's metadata. In a checkout, this
    # copy may be an old egg-info folder without entry points. Reading a name is slow, so only the
    # names of distributions with entry points for this package are read.
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
