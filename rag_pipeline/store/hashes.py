"""Hash stored files, so that corruption is found later.

A JSON file may hold the hash of its own content. A Parquet file holds the hash of its rows and its
note. `hashes/<table>.json`, `FILES.json` and release manifests hold the hashes of tables and
folders.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

SEAL = "content_sha256"
"""The key of the hash in a JSON object, and in the note of a Parquet file."""


Hashes = Mapping[str, Mapping[str, Any]]
"""Each file's size as `bytes`, and its `sha256` (local folder) or `etag` (bucket), by path."""


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the hash of its content added."""
    return {**record, SEAL: _hash(record)}


def unsealed(value: Any) -> Any:
    """Return a JSON value with its hash removed."""
    return {k: v for k, v in value.items() if k != SEAL} if isinstance(value, dict) else value


def holds(value: Any) -> bool:
    """Return whether a JSON value matches the hash that it holds, or True if it holds no hash."""
    if not isinstance(value, dict) or SEAL not in value:
        return True
    return bool(value[SEAL] == _hash(unsealed(value)))


def rows_hash(rows: pa.Table, note: Mapping[str, Any]) -> str:
    """Return the hash of the column names, rows and note of a Parquet file."""
    return _hash([rows.column_names, rows.to_pylist(), unsealed(dict(note))])


def _hash(value: Any) -> str:
    normal = json.loads(json.dumps(value, default=str))
    return hashlib.sha256(json.dumps(normal, sort_keys=True).encode()).hexdigest()


def seal_page(text: str) -> bytes:
    """Return an HTML page with its hash in a comment at its end."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text}\n<!-- {SEAL}: {digest} -->\n".encode()


def page_holds(content: bytes) -> bool:
    """Return whether an HTML page matches the hash at its end or, without a hash, is complete."""
    text, mark, rest = content.rpartition(f"\n<!-- {SEAL}: ".encode())
    if not mark:
        return content.rstrip().endswith(b"</html>")
    return rest == f"{hashlib.sha256(text).hexdigest()} -->\n".encode()
