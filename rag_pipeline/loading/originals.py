"""Read the original file of a document from its folder or bucket."""

import hashlib
import tempfile
from functools import lru_cache
from itertools import product
from pathlib import Path

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.archives import member_of, read_member
from rag_pipeline.loading.extras import MODULES, hash_without
from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.loading.sidecar import Given, hashed_with
from rag_pipeline.loading.sources import folder_of, parser_version, versioned_hash
from rag_pipeline.store.s3 import clear_s3_errors, s3_client, split_url


def read_original(document: Document, settings: DocumentsSource, root: Path) -> bytes:
    """Return the bytes of the PDF or image file of a document.

    Raise DocumentError if the file is gone or has changed, or if the document has no pages.
    """
    name = document.document_id
    if document.page_map is None:
        raise DocumentError(name, "it has no pages to show, only text")
    if settings.s3:
        raw = _object(settings.s3, name, document.content_hash)
    else:
        raw = _file(folder_of(root), name)
    if hashlib.sha256(raw).hexdigest() != PageMap.from_bytes(document.page_map).file_hash:
        _object.cache_clear()
        raise DocumentError(name, "the file has changed since it was read; run `rag run`")
    return raw


def why_read_again(name: str, made: str, root: Path, row: Given | None) -> str:
    """Return the reason why a file was read again although nobody edited it.

    `made` is the content hash of the earlier reading, and `row` is the document's line in the
    sidecar file. Return "" if the file's bytes changed or can't be read.
    """
    try:
        raw = hashlib.sha256(_file(folder_of(root), name)).hexdigest()
    except DocumentError:
        return ""
    version = parser_version(name)
    for given, extra, v in product((row, None), ("", *MODULES), range(version, 0, -1)):
        whole = hashed_with(versioned_hash(name, raw, v), given)
        if made == (hash_without(extra, whole) if extra else whole):
            metadata = "with other metadata" if row else ""
            newer = "by a newer parser" if v < version else metadata
            return f"with the extra {extra}" if extra else newer
    return ""


def _file(folder: Path, name: str) -> bytes:
    packed = member_of(name)
    try:
        if packed is not None and (folder / packed[0]).is_file():
            return read_member(folder / packed[0], packed[1])
        return (folder / name).read_bytes()
    except OSError as error:
        raise DocumentError(name, f"cannot read the file: {error.strerror or error}") from None


@lru_cache(maxsize=2)
def _object(url: str, name: str, content_hash: str) -> bytes:
    """Return the bytes of an object or archive member, cached for further pages."""
    from botocore.exceptions import ClientError

    bucket, prefix = split_url(url)
    packed = member_of(name)
    key = f"{prefix}/{packed[0] if packed else name}".lstrip("/")
    with clear_s3_errors(f"documents.s3: s3://{bucket}/{key}"):
        try:
            raw: bytes = s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            raise DocumentError(name, f"cannot read s3://{bucket}/{key}: {code}") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, packed[0] if packed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return _file(Path(folder), name)
