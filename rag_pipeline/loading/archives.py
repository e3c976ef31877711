"""Find the documents in ZIP archives and mails, such as `archive.zip/folder/file.pdf`."""

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rag_pipeline.loading.folder import UNSAFE
from rag_pipeline.loading.mails import attachments, is_mail
from rag_pipeline.loading.records import RECORD_SUFFIXES, Located, locate, oversized
from rag_pipeline.loading.text import one_line

_CORRUPT = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
_MAX_MEMBERS = 10_000
_MAX_TOTAL = 20
"""Maximum unpacked size of an archive, as a multiple of `max_bytes`."""
_MAX_RATIO = 200
_SMALL = 10_000_000
"""Unpacked size in bytes up to which the compression ratio is not limited."""
_HIDDEN = re.compile(r"(^|/)(\.(?!\.?/)|__MACOSX/)")
_OUTSIDE = re.compile(r"^([/\\]|[A-Za-z]:)|(^|[/\\])\.\.([/\\]|$)|\\")


def is_archive(name: str) -> bool:
    """Return whether a file name has the suffix of a ZIP archive."""
    return name.lower().endswith(".zip")


def locate_members(path: Path, relative: str, max_bytes: int) -> Iterator[Located]:
    """Yield every document of an archive, or a mail and every document in its attachments.

    Omit hidden files. An unusable document has a `reason`. If the archive is empty, corrupt or a
    possible zip bomb, yield only one document with this reason. Raise OSError if the archive can't
    be read.
    """
    if is_mail(relative):
        yield from _with_attached(path, relative, max_bytes)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [i for i in archive.infolist() if not i.is_dir()]
            reason = bomb(members, path.stat().st_size, max_bytes, "files")
            members = [i for i in members if not _HIDDEN.search(i.filename)]
            if not members and not reason:
                reason = "empty: it has no documents"
            if reason:
                yield _refused(path, relative, reason)
                return
            for member in members:
                yield from _located(archive, member, relative, max_bytes)
    except _CORRUPT as error:
        yield _refused(path, relative, f"corrupt .zip: {error}")


def read_member(path: Path, member: str) -> bytes:
    """Return the bytes of a member or attachment. Raise OSError if it is missing or corrupt."""
    changed = path.stat().st_mtime_ns
    if not is_mail(path.name):
        return _unpacked(path, member, changed)
    attached = _attached(path, changed)
    if member not in attached:
        raise OSError(f"the mail no longer contains {member}")
    return attached[member]


def member_of(name: str) -> tuple[str, str] | None:
    """Split a document's id into the path of its archive or mail and its member, or return None."""
    parts = name.split("/")
    for place, part in enumerate(parts[:-1], 1):
        if is_archive(part) or is_mail(part):
            return "/".join(parts[:place]), "/".join(parts[place:])
    return None


@lru_cache(maxsize=1)
def _unpacked(path: Path, member: str, changed: int) -> bytes:
    """Return a member's bytes. The last are cached, because a member may hold many records."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = next((i for i in archive.infolist() if i.filename == member), None)
            if found is None:
                raise OSError(f"the .zip no longer contains {member}")
            return archive.read(found)
    except _CORRUPT as error:
        raise OSError(f"corrupt .zip: {error}") from None


@lru_cache(maxsize=1)
def _attached(path: Path, changed: int) -> dict[str, bytes]:
    """Return a mail's attachments by name. The attachments of the last mail are cached."""
    return dict(attachments(path.read_bytes()))


def bomb(
    members: list[zipfile.ZipInfo], packed: int, max_bytes: int, parts: str, suffix: str = ".zip"
) -> str:
    """Return the reason if an archive of `packed` bytes may be a zip bomb, or else "".

    `parts` and `suffix` name the archive's members and type in the message.
    """
    total = sum(member.file_size for member in members)
    if len(members) > _MAX_MEMBERS:
        return f"possible zip bomb: it has {len(members):,} {parts}, more than {_MAX_MEMBERS:,}"
    if total > _MAX_TOTAL * max_bytes or (total > _SMALL and total > _MAX_RATIO * packed):
        return f"possible zip bomb: {packed:,} bytes of {suffix} unpack to {total:,}"
    return ""


def _with_attached(path: Path, relative: str, max_bytes: int) -> Iterator[Located]:
    """Yield a mail, and then every document in its attachments."""
    if path.stat().st_size > max_bytes:
        yield Located(relative, relative)  # `scan` refuses it by its size
        return
    raw = path.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    yield Located(relative, relative, raw_hash=digest, n_bytes=len(raw))
    found, reason = [], ""
    try:
        found = attachments(raw)
    except Exception as error:  # noqa: BLE001 - a hostile mail must not stop the others
        reason = f"corrupt: {one_line(str(error))[:200] or type(error).__name__}"
    if len(found) > _MAX_MEMBERS:
        reason = f"it has {len(found):,} attachments, more than {_MAX_MEMBERS:,}, so none is read"
    if reason:
        place = f"{relative}/attachments"
        yield Located(place, place, reason=reason, content_hash=digest, archive=relative)
        return
    for name, content in found:
        place = f"{relative}/{name}"
        if is_archive(name):
            reason = "an archive inside a mail is not opened; save it beside the mail"
            content_hash = hashlib.sha256(content).hexdigest()
            yield Located(place, place, reason=reason, content_hash=content_hash, archive=relative)
        else:
            yield from _documents_in(content, place, relative, max_bytes)


def _refused(path: Path, relative: str, reason: str) -> Located:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Located(relative, relative, reason=reason, content_hash=digest)


def _located(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, relative: str, max_bytes: int
) -> Iterator[Located]:
    name = member.filename
    place = f"{relative}/{name}"
    digest = hashlib.sha256(f"{member.CRC} {member.file_size}".encode()).hexdigest()
    reason, raw = _obstacle(member, max_bytes), b""
    try:
        raw = archive.read(member) if not reason else raw
    except _CORRUPT as error:
        reason = f"corrupt in its .zip: {error}"
    if reason:
        shown = UNSAFE.sub("?", place)
        yield Located(shown, shown, reason=reason, content_hash=digest, archive=relative)
        return
    yield from _documents_in(raw, place, relative, max_bytes)


def _documents_in(raw: bytes, place: str, relative: str, max_bytes: int) -> Iterator[Located]:
    """Yield the documents in a member of the archive or mail `relative`."""
    raw_hash = hashlib.sha256(raw).hexdigest()
    whole = Located(place, place, raw_hash=raw_hash, n_bytes=len(raw), archive=relative)
    if not place.lower().endswith(RECORD_SUFFIXES):
        yield whole
        return
    for found in locate(io.BytesIO(raw), place, max_bytes):
        known = found.reason or found.length is not None
        yield found._replace(archive=relative) if known else whole


def _obstacle(member: zipfile.ZipInfo, max_bytes: int) -> str:
    if _OUTSIDE.search(member.filename) or UNSAFE.search(member.filename):
        return "its name leads out of the .zip or has invisible characters; pack it again"
    if member.flag_bits & 1:
        return "encrypted in its .zip: save it without a password"
    if is_archive(member.filename):
        return "an archive inside an archive is not opened; unpack it"
    return oversized(member.file_size, max_bytes) if member.file_size > max_bytes else ""
