"""Which configuration is served: a manifest that pins one configuration's exact builds.

A release is written once and never changed; `releases/current.json` names the one that is
served and is replaced atomically, so a reader sees one whole release or another. Both are
written on condition that nobody else did meanwhile: of two releasers one wins, the other looks
again.
"""

from rag_pipeline.release.candidate import gate, is_current, released
from rag_pipeline.release.hashes import pinned_tables, verify
from rag_pipeline.release.manifest import Release, current, history, load, names, read
from rag_pipeline.release.moving import publish, remove, roll_back, serve, serve_imported

__all__ = [
    "Release",
    "current",
    "gate",
    "history",
    "is_current",
    "load",
    "names",
    "pinned_tables",
    "publish",
    "read",
    "released",
    "remove",
    "roll_back",
    "serve",
    "serve_imported",
    "verify",
]
