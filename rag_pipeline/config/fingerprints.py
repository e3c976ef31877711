"""Settings -> fingerprints.

A *fingerprint* hashes a stage's settings, its code version and its upstream fingerprint; rows
made under another fingerprint are stale. Settings classes carry the `code_version` of the code
they select, so that changing one chunker re-does that chunker's partitions and no others.
"""

import hashlib
import json
from typing import Any

from rag_pipeline.config.settings import RemoteModel, Settings


def fingerprint(*parts: Any) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, Settings):
            settings = value.fingerprinted()
            if isinstance(value, RemoteModel):
                settings["base_url"] = value.place
            for name, inner in value:
                if not isinstance(inner, Settings) or name not in settings:
                    continue
                # Settings inside of settings select code too; version 1 was never written down.
                version = {"code_version": inner.code_version} if inner.code_version > 1 else {}
                left_out = inner.added - inner.fingerprinted().keys()
                kept = {n: v for n, v in settings[name].items() if n not in left_out}
                settings[name] = {**kept, **version}
            return {"code_version": value.code_version, **settings}
        raise TypeError(f"cannot fingerprint {type(value).__name__}")

    canonical = json.dumps(parts, default=plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
