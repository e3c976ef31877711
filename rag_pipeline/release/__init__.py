"""Publish releases. Each manifest pins the exact builds of one configuration for serving.

A manifest never changes. `releases/current.json` names the served release and is replaced
atomically, so readers always see a whole release. Both files are written conditionally. If two
processes write at the same time, one succeeds and the other tries again.
"""

from rag_pipeline.release.manifest import Release as Release
from rag_pipeline.release.manifest import current as current
from rag_pipeline.release.manifest import history as history
from rag_pipeline.release.manifest import load as load
from rag_pipeline.release.manifest import names as names
from rag_pipeline.release.manifest import pinned_tables as pinned_tables
from rag_pipeline.release.manifest import verify as verify
