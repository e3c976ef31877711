"""Store the files of one corpus below a prefix of a bucket.

Readers see an object only when it is complete. S3's conditional puts (`If-None-Match: *`,
`If-Match: <ETag>`) let one of several writers win. Published folders are copied to this machine.
"""

import hashlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rag_pipeline.calls.database import cache_folder
from rag_pipeline.errors import StoreError
from rag_pipeline.store import folders
from rag_pipeline.store.files import Files, Lock
from rag_pipeline.store.hashes import Hashes
from rag_pipeline.store.s3 import (
    arrow_files,
    attempts,
    clear_s3_errors,
    lance_options,
    s3_client,
    split_url,
)

_LOST = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409", "NoSuchKey"}
_RENEWED_SECONDS, _LOCKED_SECONDS = 20.0, 90.0


class BucketFiles(Files):
    """The files of a corpus below a prefix of a bucket."""

    shared = True

    def __init__(self, url: str, corpus: str) -> None:
        self.url = url
        self.files = arrow_files()
        self._bucket, prefix = split_url(url)
        self._prefix = f"{prefix}/{corpus}".lstrip("/")
        self.root = f"{self._bucket}/{self._prefix}"
        self.address = f"{url}/{corpus}"
        self.calls_folder = cache_folder() / _digest(url)
        self._copies = cache_folder() / "folders"

    def _lance_options(self) -> dict[str, str]:
        return lance_options()

    def write(self, path: str, content: bytes) -> None:
        """Write an object, or replace it."""
        # Arrow sends three requests, and closes a failed stream under the interpreter lock.
        with clear_s3_errors(f"{self.address}/{path}"):
            s3_client().put_object(Bucket=self._bucket, Key=self._key(path), Body=content)

    def hashes(self, paths: Iterable[str]) -> Hashes:
        """Return the size in bytes and the ETag of each existing object, without downloads."""
        wanted = set(paths)
        found: dict[str, dict[str, Any]] = {}
        pages = s3_client().get_paginator("list_objects_v2")
        for folder in sorted({"/".join(path.split("/")[:2]) for path in wanted}):
            with clear_s3_errors(f"{self.address}/{folder}"):
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._key(folder)):
                    for entry in page.get("Contents", ()):
                        path = entry["Key"].removeprefix(f"{self._prefix}/")
                        if path in wanted:
                            found[path] = {"bytes": entry["Size"], "etag": entry["ETag"]}
        return found

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """Return the content and ETag of an object, or None if it does not exist."""
        from botocore.exceptions import ClientError, IncompleteReadError, ResponseStreamingError

        with clear_s3_errors(f"{self.address}/{path}"):
            for left in reversed(range(attempts())):
                try:
                    found = s3_client().get_object(Bucket=self._bucket, Key=self._key(path))
                    return found["Body"].read(), found["ETag"]
                except ClientError as error:
                    if error.response["Error"]["Code"] == "NoSuchKey":
                        return None
                    raise
                except (IncompleteReadError, ResponseStreamingError):
                    if not left:  # boto3 retries only until the content begins
                        raise
        raise AssertionError("unreachable")

    def create(self, path: str, content: bytes) -> bool:
        """Write an object if it does not exist, and return whether it was written."""
        return self._put(path, content, "IfNoneMatch", "*")

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Replace the object if it still has this ETag, and return whether it was replaced."""
        return self._put(path, content, "IfMatch", tag)

    def try_lock(self, path: str, holder: Mapping[str, Any]) -> Lock | None:
        """Return a lock, or None if another process holds it.

        The lock expires 90 seconds after its last renewal. `holder` is written to `path` as JSON.
        """
        found = self.read_tagged(path)
        if found is not None and _locked_until(found[0]) > time.time():
            return None
        content = _lock_content(holder)
        took = self.replace(path, content, found[1]) if found else self.create(path, content)
        return self._renewing(path, holder, content) if took else None

    @contextmanager
    def _renewing(self, path: str, holder: Mapping[str, Any], content: bytes) -> Iterator[None]:
        ended = threading.Event()
        mine = [content]

        def renew() -> None:
            while not ended.wait(_RENEWED_SECONDS):
                with suppress(StoreError):  # tried again in 20 seconds
                    found = self.read_tagged(path)
                    if found is None or found[0] != mine[0]:
                        return  # another process took it after 90 seconds
                    after = _lock_content(holder)
                    if self.replace(path, after, found[1]):
                        mine[0] = after

        renewal = threading.Thread(target=renew, name="lease", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            ended.set()
            renewal.join()
            # A lock that can't be removed expires. Its error must not hide the error of the block.
            with suppress(StoreError, OSError):
                if self.read(path) == mine[0]:
                    self.remove_file(path)

    def leftovers(self) -> Sequence[str]:
        """Return [], because a bucket shows only complete objects."""
        return []

    def new_folder(self, path: str) -> Path:
        """Return a new empty folder among this machine's temporary files."""
        return Path(tempfile.mkdtemp(prefix="rag-building-"))

    def publish(self, built: Path, path: str, listed: bytes) -> None:
        """Upload a complete local folder, and then delete it.

        The list of its files (`listed`) is uploaded last. If `path` has a folder, upload nothing.
        """
        if not self.has_folder(path):
            for file in sorted(p for p in built.rglob("*") if p.is_file()):
                name = f"{path}/{file.relative_to(built).as_posix()}"
                with clear_s3_errors(f"{self.address}/{name}"):
                    s3_client().upload_file(str(file), self._bucket, self._key(name))
            self.write(f"{path}/{folders.FILES}", listed)
        shutil.rmtree(built)

    def local_folder(self, path: str) -> Path | None:
        """Return this machine's copy of a published folder, or None if there is no folder.

        The folder is copied once. Each call compares the SHA-256 of every file in the copy, and
        replaces a damaged copy.
        """
        listed = self.read(f"{path}/{folders.FILES}")
        if listed is None:
            return None
        target = self._copies / self._copy_name(path, listed)
        place = f"{self.address}/{path}"
        return folders.fetch(self.files, f"{self.root}/{path}", listed, place, target)

    def stale_copies(self, paths: Iterable[str], before: float) -> Sequence[Path]:
        """Return this machine's copies of folders outside `paths` that were last used by `before`.

        `before` is a Unix time in seconds.
        """
        lists = {path: self.read(f"{path}/{folders.FILES}") for path in paths}
        wanted = {self._copy_name(path, found) for path, found in lists.items() if found}
        mine = sorted(self._copies.glob(f"{self._copy_prefix}-*"))
        return [c for c in mine if c.name not in wanted and c.stat().st_mtime <= before]

    @property
    def _copy_prefix(self) -> str:
        return _digest(f"{self.address}/")

    def _copy_name(self, path: str, listed: bytes) -> str:
        # A rebuilt folder has another list, and therefore another copy.
        content = hashlib.sha256(listed).hexdigest()
        return f"{self._copy_prefix}-{_digest(path + content)}"

    def _put(self, path: str, content: bytes, condition: str, value: str) -> bool:
        from botocore.exceptions import ClientError

        with clear_s3_errors(f"{self.address}/{path}"):
            try:
                s3_client().put_object(
                    Bucket=self._bucket, Key=self._key(path), Body=content, **{condition: value}
                )
            except ClientError as error:
                if error.response["Error"]["Code"] not in _LOST:
                    raise
                # boto3 repeats a request whose reply was lost. The first request may have won.
                found = self.read_tagged(path)
                return found is not None and found[0] == content
        return True

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}"


def _lock_content(holder: Mapping[str, Any]) -> bytes:
    return json.dumps({**holder, "until": time.time() + _LOCKED_SECONDS}).encode()


def _locked_until(content: bytes) -> float:
    try:
        return float(json.loads(content)["until"])
    except (ValueError, KeyError, TypeError):  # not a lock, so nobody renews it
        return 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
