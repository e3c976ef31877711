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
            settings |= {n: _inner(v, settings[n]) for n, v in value if n in settings}
            if isinstance(value, RemoteModel):
                settings["base_url"] = value.place
            return {"code_version": value.code_version, **settings}
        raise TypeError(f"cannot fingerprint {type(value).__name__}")

    canonical = json.dumps(parts, default=plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _inner(value: Any, shown: Any) -> Any:
    """Return what a fingerprint is made of, of settings inside of settings, alone or in a list.

    They select code too; version 1 was never written down.
    """
    if isinstance(value, Settings):
        own = value.fingerprinted().keys() & shown.keys()
        version = {"code_version": value.code_version} if value.code_version > 1 else {}
        return {**{n: _inner(v, shown[n]) for n, v in value if n in own}, **version}
    if isinstance(value, tuple | list):
        return [_inner(*pair) for pair in zip(value, shown, strict=True)]
    return shown
