"""Import large packages, compile large patterns and load entry points on first use."""

import importlib
import importlib.util
import logging
import os
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, distributions
from threading import RLock
from types import ModuleType
from typing import Any

from rag_pipeline.errors import ConfigError

_LOCK = RLock()
_LOADS = "__rag_pipeline_loads__"
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


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern on first use. A long list of words takes up to 0.1 seconds."""
    return re.compile(pattern, flags)


def load_yaml(text: str | bytes) -> Any:
    """Return the value of a YAML text. Use libyaml, which is faster, if PyYAML includes it."""
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def import_lancedb() -> Any:
    """Import LanceDB without its catalogue client, which saves 0.4 of 1.4 seconds."""
    postpone("lance_namespace_urllib3_client")
    return importlib.import_module("lancedb")


def import_bm25s() -> Any:
    """Import bm25s without scipy's sparse matrices, which this package does not need."""
    postpone("scipy.sparse")
    return importlib.import_module("bm25s")


def import_great_expectations() -> Any:
    """Import Great Expectations without its usage reports.

    Plots and distributions load on first use, which saves 1 of 3.4 seconds and 78 MB.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    postpone("altair", "scipy.stats")
    return importlib.import_module("great_expectations")


def start_pyarrow() -> None:
    """Start pyarrow without pandas, which saves 0.2 of 1.3 seconds and 40 MB.

    pyarrow imports pandas with its first value, to recognise data frames. Commands that open a
    corpus pass no data frame to pyarrow. Conversions to pandas still work.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.scalar(True)
    finally:
        sys.meta_path.remove(_WithoutPandas)


class _WithoutPandas:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas. Leave all other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def postpone(*packages: str) -> None:
    """Replace packages by modules that load when their first attribute is read."""
    with _LOCK:
        for name in packages:
            try:
                spec = None if name in sys.modules else importlib.util.find_spec(name)
            except ModuleNotFoundError:  # its parent is not installed
                spec = None
            if spec is None:
                continue
            module = importlib.util.module_from_spec(spec)
            module.__class__ = Postponed
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)


class Postponed(ModuleType):
    """A package whose code has not run yet.

    `importlib.util.LazyLoader` would run the package's code when a submodule is imported.
    """

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            # Until its code has run, other threads wait here, and the code itself passes.
            if type(self) is Postponed and not self.__dict__.get(_LOADS):
                spec = self.__spec__
                assert spec is not None
                assert spec.loader is not None
                vars(self)[_LOADS] = True
                try:
                    spec.loader.exec_module(self)
                    self.__class__ = ModuleType  # type: ignore[assignment]
                finally:
                    del vars(self)[_LOADS]
        return ModuleType.__getattribute__(self, name)


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
