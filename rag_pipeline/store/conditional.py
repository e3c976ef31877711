"""Writes that only one of several writers can win: create a file, or replace the one that was read.

On a bucket these are S3's conditional puts (`If-None-Match: *`, `If-Match: <ETag>`); in a folder
a hard link, which refuses a name that exists, and a lock on the folder, which a process that is
killed lets go of.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rag_pipeline.store.s3 import attempts, clear_s3_errors, s3_client

_LOST = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


class ConditionalFiles(Protocol):
    """Small files that carry a tag, which changes with their content."""

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return content and tag, None if there is no file."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write a file that is not there; return False, and change nothing, if it is."""
        ...

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Write over the file that has this tag; return False, and change nothing, otherwise."""
        ...


class FolderFiles:
    """Conditional writes under a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return content and tag, None if there is no file."""
        try:
            content = (self._root / path).read_bytes()
        except FileNotFoundError:
            return None
        return content, _tag(content)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file that is not there."""
        with _written(self._root / path, content) as written:
            try:
                os.link(written, self._root / path)
            except FileExistsError:
                return False
        return True

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Write over the file that has this tag."""
        target = self._root / path
        with _written(target, content) as written, _locked(target.parent):
            found = self.read(path)
            if found is None or found[1] != tag:
                return False
            written.replace(target)
        return True


class BucketFiles:
    """Conditional writes under a prefix of a bucket."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return content and ETag, None if there is no object."""
        from botocore.exceptions import ClientError, IncompleteReadError, ResponseStreamingError

        with clear_s3_errors(self._place(path)):
            for left in reversed(range(attempts())):
                try:
                    found = s3_client().get_object(Bucket=self._bucket, Key=self._key(path))
                    return found["Body"].read(), found["ETag"]
                except ClientError as error:
                    if error.response["Error"]["Code"] == "NoSuchKey":
                        return None
                    raise
                except (IncompleteReadError, ResponseStreamingError):
                    if not left:  # boto3 itself tries again only until the content begins
                        raise
        raise AssertionError("unreachable")

    def create(self, path: str, content: bytes) -> bool:
        """Write an object that is not there."""
        return self._put(path, content, "IfNoneMatch", "*")

    def replace(self, path: str, content: bytes, tag: str) -> bool:
        """Write over the object that has this ETag."""
        return self._put(path, content, "IfMatch", tag)

    def _put(self, path: str, content: bytes, condition: str, value: str) -> bool:
        from botocore.exceptions import ClientError

        with clear_s3_errors(self._place(path)):
            try:
                s3_client().put_object(
                    Bucket=self._bucket, Key=self._key(path), Body=content, **{condition: value}
                )
            except ClientError as error:
                if error.response["Error"]["Code"] not in {*_LOST, "NoSuchKey"}:
                    raise
                # A repeated request loses against itself if only the first answer was lost.
                found = self.read(path)
                return found is not None and found[0] == content
        return True

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}".lstrip("/")

    def _place(self, path: str) -> str:
        return f"s3://{self._bucket}/{self._key(path)}"


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _written(target: Path, content: bytes) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
