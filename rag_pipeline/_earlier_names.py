"""Modules under the names that they had before they moved into rooms, so that old imports work."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

MOVED = {
    "addresses": "calls.addresses",
    "adaptive_selection": "search.adaptive_selection",
    "batches": "models.batches",
    "bundle": "release.bundle",
    "chat": "models.chat",
    "checks": "release.checks",
    "context_aware": "search.staged",
    "costs": "calls.costs",
    "databases": "calls.databases",
    "embedding": "models.embedding",
    "fusion": "search.fusion",
    "gate": "release.gate",
    "generation": "answering",
    "grouping": "calls.grouping",
    "importers": "loading.importers",
    "inspection": "pipeline.inspection",
    "integrations": "serving",
    "lexical_index": "search.lexical_index",
    "planning": "pipeline.planning",
    "progress": "calls.progress",
    "providers": "models.providers",
    "queries": "loading.queries",
    "query_analysis": "search.query_analysis",
    "reranking": "search.reranking",
    "retention": "pipeline.retention",
    "retrieval": "search.retrieval",
    "sharing": "calls.sharing",
    "tokenization": "search.tokenization",
    "two_stage_retrieval": "search.retrieval",
    "vector_index": "search.vector_index",
}
"""A module's earlier name -> its name today, both below `rag_pipeline`."""


class _EarlierNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `rag_pipeline.<earlier name>` and what is in it; gives the module of today itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        earlier, *inner = rest.split(".")
        if package != __package__ or earlier not in MOVED:
            return None
        today = ".".join([package, MOVED[earlier], *inner])
        if importlib.util.find_spec(today) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=today)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        # The spec is the import system's to write on the module; today's keeps its own.
        return _Alias(spec.name, importlib.import_module(spec.loader_state))

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of what stood for it."""
        assert isinstance(module, _Alias)
        sys.modules[module.__name__] = module.today


class _Alias(ModuleType):
    def __init__(self, earlier: str, today: ModuleType) -> None:
        super().__init__(earlier)
        self.today = today


def install() -> None:
    """Let imports by earlier names find the modules of today."""
    if not any(isinstance(finder, _EarlierNames) for finder in sys.meta_path):
        # First: the files of a moved package would be found below its earlier name once more.
        sys.meta_path.insert(0, _EarlierNames())
