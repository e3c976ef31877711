"""Late imports of large packages and late compilation of large patterns."""

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
    """Compile a pattern on its first use; long lists of words take up to 0.1 s."""
    return re.compile(pattern, flags)


def import_lancedb() -> Any:
    """Import LanceDB; its catalogue client loads on first use, which saves 0.4 of 1.4 CPU s."""
    _postpone("lance_namespace_urllib3_client")
    return importlib.import_module("lancedb")


def import_great_expectations() -> Any:
    """Import Great Expectations without its usage reports.

    Its plots and distributions load on first use, which saves 1 of 3.4 CPU s and 78 MB.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    _postpone("altair", "scipy.stats")
    return importlib.import_module("great_expectations")


def _postpone(*packages: str) -> None:
    """Let packages load when their first attribute is read."""
    with _LOCK:
        for name in packages:
            if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
                continue
            module = importlib.util.module_from_spec(spec)
            module.__class__ = Postponed
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)


class Postponed(ModuleType):
    """A package that has not run yet.

    Its submodules can be imported. `importlib.util.LazyLoader` would run the package then.
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
