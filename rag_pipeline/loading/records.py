"""Find documents in JSON and JSON Lines files by byte offset, and parse them one by one."""

import codecs
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.folder import UNSAFE
from rag_pipeline.loading.text import byte_order_encoding, decode_as, one_line, storable

RECORD_SUFFIXES = (".json", ".jsonl", ".ndjson")
_OWN_FIELDS = ("document_id", "id", "text", "title", "metadata")
_BLOCK = 1 << 20


class Located(NamedTuple):
    """The position of a document in a file. A broken document has a `reason`.

    `number` is the document's line (from 1) or its index in a JSON array (from 0). `number` and
    `length` are None if the whole file is the document.
    """

    document_id: str
    relative: str
    number: int | None = None
    offset: int = 0
    length: int | None = None
    reason: str = ""
    content_hash: str = ""
    unread: bool = False
    """Whether the reason may no longer hold at the next load."""
    raw_hash: str = ""
    """The SHA-256 of the `n_bytes` raw bytes, or "" before they are read."""
    n_bytes: int = 0
    archive: str = ""
    """The path of the archive or mail with the document. `relative` begins with this path."""

    @property
    def place(self) -> str:
        """Return `{relative}:{number}`, or `{relative}` for a whole file."""
        return self.relative if self.number is None else f"{self.relative}:{self.number}"


def locate(file: BinaryIO, relative: str, max_bytes: int) -> Iterator[Located]:
    """Yield every document of an open JSON or JSON Lines file. A broken document has a `reason`.

    A record without an id gets the id `{relative}:{line}` (from 1) or, in a JSON array,
    `{relative}:{index}` (from 0). Raise OSError if the file can't be read.
    """
    if encoding := byte_order_encoding(file.read(4)):
        reason = f"{encoding.upper()} text: save JSON as UTF-8"
        file.seek(0)
        yield _broken(relative, None, reason, hashlib.sha256(file.read(max_bytes)).hexdigest())
        return
    file.seek(0)
    if relative.lower().endswith(".json"):
        yield from _locate_in_json(file, relative, max_bytes)
    else:
        yield from _locate_lines(file, relative, max_bytes)


def _locate_lines(file: BinaryIO, relative: str, max_bytes: int) -> Iterator[Located]:
    number, offset, empty = 0, 0, True
    while line := file.readline(max_bytes + 2):
        number += 1
        start = offset
        offset += len(line)
        raw = line.rstrip(b"\r\n")
        if len(raw) > max_bytes:
            digest, length = hashlib.sha256(line), len(line)
            while not line.endswith(b"\n") and (line := file.readline(_BLOCK)):
                digest.update(line)
                length += len(line)
            offset = start + length
            yield _broken(relative, number, oversized(length, max_bytes), digest.hexdigest())
        elif raw.strip():
            yield _located(raw, relative, number, start)
        else:
            continue
        empty = False
    if empty:
        digest = hashlib.sha256(b"")
        yield _broken(relative, None, "empty: it has no documents", digest.hexdigest())


def _locate_in_json(file: BinaryIO, relative: str, max_bytes: int) -> Iterator[Located]:
    raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        yield Located(relative, relative)  # `scan` refuses it by its size
        return
    try:
        value = parse_json(relative, raw)
    except DocumentError as error:
        yield _broken(relative, None, error.reason, hashlib.sha256(raw).hexdigest())
        return
    if isinstance(value, dict) and "text" in value:
        yield _located(raw, relative, None, 0)
    elif isinstance(value, list) and any(isinstance(v, dict) and "text" in v for v in value):
        for index, (start, end) in enumerate(_elements(raw)):
            yield _located(raw[start:end], relative, index, start)
    else:
        yield Located(relative, relative)


def _elements(raw: bytes) -> Iterator[tuple[int, int]]:
    text = raw.decode("utf-8")
    decoder = json.JSONDecoder()
    gap = re.compile(r"[\s,]*")
    position, offset = text.index("[") + 1, 0
    counted = 0
    while True:
        separator = gap.match(text, position)
        begin = separator.end() if separator else position
        if text[begin] == "]":
            return
        _, position = decoder.raw_decode(text, begin)
        offset += len(text[counted:begin].encode())
        length = len(text[begin:position].encode())
        yield offset, offset + length
        offset += length
        counted = position


def _located(raw: bytes, relative: str, number: int | None, offset: int) -> Located:
    digest = hashlib.sha256(raw).hexdigest()
    located = Located("", relative, number, offset, len(raw), raw_hash=digest, n_bytes=len(raw))
    try:
        given = _given_id(located.place, read_record(located.place, raw))
    except DocumentError as error:
        return _broken(relative, number, error.reason, digest)
    return located._replace(document_id=given or located.place)


def _broken(relative: str, number: int | None, reason: str, content_hash: str) -> Located:
    located = Located("", relative, number, reason=reason, content_hash=content_hash)
    return located._replace(document_id=located.place)


def _given_id(place: str, record: dict[str, Any]) -> str:
    for field in ("document_id", "id"):
        value = record.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise DocumentError(place, f"{field}: {value!r:.80}: expected a string or an integer")
        if not str(value).strip() or UNSAFE.search(str(value)):
            expected = "expected visible characters, without control or invisible characters"
            raise DocumentError(place, f"{field}: {value!r:.80}: {expected}")
        return str(value)
    return ""


def parse_json(document_id: str, raw: bytes) -> Any:
    """Parse UTF-8 JSON, or raise DocumentError with the position of the error."""
    text = decode_as(document_id, raw.removeprefix(codecs.BOM_UTF8), "utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"(line {error.lineno}, column {error.colno})"
        raise DocumentError(document_id, f"not valid JSON: {error.msg} {place}") from None
    except RecursionError:
        raise DocumentError(document_id, "unusable JSON: nested too deeply") from None
    except ValueError as error:
        raise DocumentError(document_id, f"unusable JSON: {one_line(str(error))}") from None


def read_record(document_id: str, raw: bytes) -> dict[str, Any]:
    """Parse one JSON object with a `text`, or raise DocumentError for any other value."""
    record = parse_json(document_id, raw)
    if not isinstance(record, dict):
        raise DocumentError(document_id, f"expected a JSON object, not {type(record).__name__}")
    if "text" not in record:
        known = ", ".join(map(repr, list(record)[:8])) or "nothing"
        raise DocumentError(document_id, f"text: missing; the object has {known:.200}")
    if not isinstance(record["text"], str):
        raise DocumentError(document_id, f"text: {record['text']!r:.80}: expected a string")
    if not isinstance(metadata := record.get("metadata", {}), dict | None):
        raise DocumentError(document_id, f"metadata: {metadata!r:.80}: expected an object")
    return record


def record_metadata(record: dict[str, Any]) -> dict[str, MetadataValue]:
    """Return the non-null values of a record's `metadata` and unknown fields."""
    other = {key: value for key, value in record.items() if key not in _OWN_FIELDS}
    merged = {**other, **(record.get("metadata") or {})}
    return {str(storable(k)): storable(v) for k, v in merged.items() if v is not None}


def oversized(n_bytes: int, max_bytes: int) -> str:
    """Return the reason for refusing a document of `n_bytes` bytes."""
    return f"oversized: {n_bytes:,} bytes are more than documents.max_bytes, {max_bytes:,}"
