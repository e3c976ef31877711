"""Hash settings into fingerprints.

A *fingerprint* is a hash of a stage's settings, its code version and its upstream fingerprint. Rows
with a different fingerprint are stale. Each settings class has its own `code_version`, so a changed
chunker makes only its own partitions stale.
"""

import hashlib
import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from rag_pipeline.config.settings import Settings


def fingerprint(*parts: Any) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON.

    The JSON of settings has their `code_version` and lacks the settings in `not_fingerprinted`.
    This also holds for settings inside settings. Raises TypeError if a part has no JSON form.
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
