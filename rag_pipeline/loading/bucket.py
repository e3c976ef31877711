"""List the documents below a prefix of a bucket. Objects are copied only while they are read."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import ConfigError, UnreadDocumentError
from rag_pipeline.loading.archives import is_archive
from rag_pipeline.loading.folder import UNSAFE, ListedFile, selector
from rag_pipeline.loading.records import RECORD_SUFFIXES, oversized
from rag_pipeline.loading.sources import Rejected, Source, scan, versioned_hash
from rag_pipeline.store.s3 import clear_s3_errors, s3_client, split_url

_GONE = {"NoSuchKey", "404", "PreconditionFailed", "412"}
_REFUSED = {"AccessDenied", "403", "InvalidObjectState"}


class Listed(NamedTuple):
    """An object of a bucket.

    `relative` is the key below the prefix. `etag` changes with the content and the parser's
    version. `reason` says why the object is unusable, or is "".
    """

    relative: str
    etag: str
    n_bytes: int
    reason: str = ""

    def origin(self, documents: int) -> str:
        """Return the `origin` of this object's rows, given the number of its documents."""
        return json.dumps([self.relative, self.etag, self.n_bytes, documents])


def list_bucket(source: DocumentsSource) -> list[Listed]:
    """Return the objects that match `include` and not `exclude`, in the order of their keys.

    Raise ConfigError if no object matches, and StoreError if the bucket can't be reached.
    """
    bucket, prefix = split_url(source.s3)
    start = f"{prefix}/" if prefix else ""
    wanted = selector(source.include, source.exclude)
    found: list[Listed] = []
    seen = 0
    with _client(source, f"documents.s3: {source.s3}") as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start)
        for page in pages:
            for entry in page.get("Contents", ()):
                relative = entry["Key"][len(start) :]
                if not relative or relative.endswith("/"):  # a folder marker
                    continue
                seen += 1
                if wanted(relative):
                    reason = _obstacle(relative, entry["Size"], source.max_bytes)
                    etag = versioned_hash(relative, entry["ETag"])
                    found.append(Listed(relative, etag, entry["Size"], reason))
    if not seen:
        raise ConfigError(f"documents.s3: no documents in {source.s3}: no object has this prefix")
    if not found:
        raise ConfigError(
            f"documents.include: none of the {seen} objects in {source.s3} matches include "
            f"{list(source.include)} but not exclude {list(source.exclude)}; change these patterns"
        )
    return found


@contextmanager
def _client(source: DocumentsSource, place: str) -> Iterator[Any]:
    with clear_s3_errors(place):
        client = (source.s3_client or s3_client)()
    with clear_s3_errors(place, client):
        yield client


def _obstacle(relative: str, size: int, max_bytes: int) -> str:
    if UNSAFE.search(relative):
        return "the key has control or invisible characters; rename it"
    if any(segment in ("", ".", "..") for segment in relative.split("/")):
        return "the key has an empty, '.' or '..' part; rename it"
    taken_apart = relative.lower().endswith(RECORD_SUFFIXES) or is_archive(relative)
    return oversized(size, max_bytes) if size > max_bytes and not taken_apart else ""


@contextmanager
def opened(source: DocumentsSource, listed: Listed) -> Iterator[list[Source]]:
    """Yield the documents of one object, which can be loaded only inside the `with` block.

    Raise UnreadDocumentError if the object can't be read or has changed since the listing. Raise
    StoreError if the bucket can't be reached.
    """
    if listed.reason:
        yield [Rejected(UNSAFE.sub("?", listed.relative), "", listed.reason)]
        return
    with tempfile.TemporaryDirectory(prefix="rag-object-") as name:
        _copy(source, listed, Path(name) / listed.relative)
        yield list(scan(source, Path(name), files=[ListedFile(listed.relative)]))


def _copy(source: DocumentsSource, listed: Listed, target: Path) -> None:
    from botocore.exceptions import ClientError

    bucket, prefix = split_url(source.s3)
    key = f"{prefix}/{listed.relative}".lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _client(source, f"documents.s3: s3://{bucket}/{key}") as client:
        try:
            # boto3 resumes after a lost connection, and never mixes two versions.
            client.download_file(bucket, key, str(target))
            changed = target.stat().st_size != listed.n_bytes
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _REFUSED:
                reason = f"cannot read the object: {code}"
                raise UnreadDocumentError(listed.relative, reason) from None
            if code not in _GONE:
                raise
            changed = True
    if changed:
        raise UnreadDocumentError(listed.relative, "it changed after it was listed; run again")
