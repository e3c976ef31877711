"""Settings -> fingerprints.

A *fingerprint* hashes a stage's settings, its code version and its upstream fingerprint. Rows with
another fingerprint are stale. `code_version` belongs to each settings class, so a changed chunker
makes only its own partitions stale.
"""

import hashlib
import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from rag_pipeline.config.settings import Settings


def fingerprint(*parts: Any) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON.

    Settings inside settings count as the outer ones do: without `not_fingerprinted`, with their
    `code_version`. Raises TypeError for a part that has no JSON form.
    """
    canonical = json.dumps(parts, default=_plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return {"code_version": value.code_version, **value.fingerprinted()}
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        raise TypeError(f"cannot fingerprint {type(value).__name__}") from None
