"""Import large packages and compile large patterns on first use."""

import importlib
import importlib.util
import os
import re
import sys
from functools import cache
from threading import RLock
from types import ModuleType
from typing import Any

_LOCK = RLock()


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

    pyarrow's first value imports pandas, to recognise data frames. The commands that search pass
    none to pyarrow. Conversions to pandas still work.
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
        """Fail if pandas is imported. Leave all other modules to the next finder."""
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
            if type(self) is Postponed:
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                assert spec is not None
                assert spec.loader is not None
                spec.loader.exec_module(self)
        return getattr(self, name)
