"""What a process need not wait for when it starts: parts of large packages, large patterns.

LanceDB and Great Expectations are imported without what nothing here uses; what is left out is
imported on its first use, so that the packages keep all they can do.
"""

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from types import ModuleType
from typing import Any

from rag_pipeline.memory import uncollected

_LOCK = RLock()


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern on its first use; long lists of words take up to 0.1 s."""
    return re.compile(pattern, flags)


def import_lancedb() -> Any:
    """Import LanceDB without the client of its catalogue server.

    That client's 240 modules of models and checked functions take two thirds of the time.
    """
    if "lancedb" not in sys.modules:
        with _LOCK, _models_built_on_use(), uncollected():
            _postpone("lance_namespace_urllib3_client")
            importlib.import_module("lancedb")
    return importlib.import_module("lancedb")


def import_great_expectations() -> Any:
    """Import Great Expectations without what it plots and tests distributions with.

    It reports its use to its makers unless it is told not to.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with _LOCK:
        _postpone("altair", "scipy.stats")
    with uncollected():
        return importlib.import_module("great_expectations")


def postponed(module: ModuleType) -> bool:
    """Tell whether a package has been left out so far."""
    return type(module) is _Postponed


def _postpone(*packages: str) -> None:
    """Let packages be imported when the first name of each is asked for."""
    for name in packages:
        if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
            continue
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _Postponed
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


class _Postponed(ModuleType):
    """A package that has not run yet; its modules can be imported without it."""

    def __getattr__(self, name: str) -> Any:
        # importlib's own lazy loader runs a package as soon as one of its modules is imported.
        with _LOCK:
            if postponed(self):
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                assert spec is not None
                assert spec.loader is not None
                spec.loader.exec_module(self)
        return getattr(self, name)


@contextmanager
def _models_built_on_use() -> Iterator[None]:
    """Let pydantic build the validators of the models that are defined here at their first use."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]
