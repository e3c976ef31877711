"""Publish releases: each manifest pins the exact builds of one configuration for serving.

A manifest never changes. `releases/current.json` names the served release and is replaced
atomically, so a reader sees one whole release. Both files are written conditionally. If two
processes write at once, one succeeds and the other tries again.
"""

from typing import TYPE_CHECKING, Any

from rag_pipeline.imports import late
from rag_pipeline.release.manifest import Release as Release
from rag_pipeline.release.manifest import current as current
from rag_pipeline.release.manifest import history as history
from rag_pipeline.release.manifest import load as load
from rag_pipeline.release.manifest import names as names
from rag_pipeline.release.manifest import pinned_tables as pinned_tables
from rag_pipeline.release.manifest import verify as verify

if TYPE_CHECKING:
    from rag_pipeline.release.candidate import candidate_digest as candidate_digest
    from rag_pipeline.release.candidate import gate_decision as gate_decision
    from rag_pipeline.release.candidate import is_current as is_current
    from rag_pipeline.release.candidate import served_reference as served_reference
    from rag_pipeline.release.publishing import forget as forget
    from rag_pipeline.release.publishing import publish as publish
    from rag_pipeline.release.publishing import remove as remove
    from rag_pipeline.release.publishing import roll_back as roll_back
    from rag_pipeline.release.publishing import serve as serve


def __getattr__(name: str) -> Any:
    """Import the publishing functions at their first use, because searches do not need them."""
    modules = {
        "candidate": "candidate_digest gate_decision is_current served_reference",
        "publishing": "forget publish remove roll_back serve",
    }
    return late(__name__, name, modules)
