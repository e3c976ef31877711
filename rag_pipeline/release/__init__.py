"""Which configuration is served: a manifest that pins one configuration's exact builds.

A release is written once and never changed; `releases/current.json` names the one that is
served and is replaced atomically, so a reader sees one whole release or another. Both are
written on condition that nobody else did meanwhile: of two releasers one wins, the other looks
again.
"""

from rag_pipeline.release.candidate import gate as gate
from rag_pipeline.release.candidate import is_current as is_current
from rag_pipeline.release.candidate import released as released
from rag_pipeline.release.manifest import Release as Release
from rag_pipeline.release.manifest import current as current
from rag_pipeline.release.manifest import history as history
from rag_pipeline.release.manifest import load as load
from rag_pipeline.release.manifest import names as names
from rag_pipeline.release.manifest import pinned_tables as pinned_tables
from rag_pipeline.release.manifest import read as read
from rag_pipeline.release.manifest import verify as verify
from rag_pipeline.release.moving import forget as forget
from rag_pipeline.release.moving import publish as publish
from rag_pipeline.release.moving import remove as remove
from rag_pipeline.release.moving import roll_back as roll_back
from rag_pipeline.release.moving import serve as serve
from rag_pipeline.release.moving import serve_imported as serve_imported
