"""List the documents of a folder, and load them one by one."""

import hashlib
import os
import posixpath
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document, MetadataValue
from rag_pipeline.errors import ConfigError, DocumentError, UnreadDocumentError
from rag_pipeline.loading.archives import is_archive, locate_members, read_member
from rag_pipeline.loading.code import CODE_SUFFIXES
from rag_pipeline.loading.extras import hash_without
from rag_pipeline.loading.folder import UNSAFE, ListedFile, find_files, matcher
from rag_pipeline.loading.images import IMAGE_TYPES
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.mails import is_mail
from rag_pipeline.loading.parser_process import parse_apart
from rag_pipeline.loading.parsers import PARSER_VERSIONS, PARSERS
from rag_pipeline.loading.quality import doubts_of_prose, with_known
from rag_pipeline.loading.records import (
    RECORD_SUFFIXES,
    Located,
    locate,
    oversized,
    read_record,
    record_metadata,
)
from rag_pipeline.loading.seen import SeenFiles
from rag_pipeline.loading.text import (
    decode,
    first_line_title,
    front_matter,
    markdown_title,
    one_line,
    require_text,
)

_MARKDOWN = (".md", ".markdown")
_PROSE = {
    *(*_MARKDOWN, ".txt", ".html", ".htm", ".xhtml", ".docx", ".pptx", ".odt", ".rtf", ".epub"),
    *(".eml", ".msg"),
}
"""Suffixes of prose. The text quality of tables, code and data is not measured."""
_MEDIA_TYPES = {
    **dict.fromkeys(_MARKDOWN, "text/markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".ipynb": "application/x-ipynb+json",
    ".eml": "message/rfc822",
    ".msg": "application/vnd.ms-outlook",
    ".epub": "application/epub+zip",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".rtf": "application/rtf",
    **IMAGE_TYPES,
    **CODE_SUFFIXES,
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """A document that is refused before it is parsed.

    `content_hash` is "" if the bytes were not read. `unread` is True if the reason may no longer
    hold at the next load. `origin` is the `Listed.origin` of a bucket's object, or None.
    """

    document_id: str
    content_hash: str
    reason: str
    unread: bool = False
    origin: str | None = None
    n_bytes: ClassVar[int] = 0

    def error(self) -> DocumentError:
        """Return the error to raise when this document is loaded."""
        kind = UnreadDocumentError if self.unread else DocumentError
        return kind(self.document_id, self.reason)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file, or a record in a JSON file, that can be loaded as a document.

    `raw_hash` is the SHA-256 (hex) of the `n_bytes` raw bytes. `content_hash` also depends on the
    parser's version and the sidecar file. `relative` is the path of the file below `base`. `offset`
    is the record's byte offset, or None for a whole file. `title` and the `given` metadata come
    from a sidecar file, and replace the document's own values.
    """

    document_id: str
    content_hash: str
    n_bytes: int
    base: Path
    relative: str
    settings: DocumentsSource
    offset: int | None = None
    raw_hash: str = ""
    title: str = ""
    given: Mapping[str, MetadataValue] = field(default_factory=dict)
    archive: str = ""
    """The path of the archive or mail with the file. `relative` begins with this path."""
    origin: str | None = None
    """The `Listed.origin` of a bucket's object, or None for a file."""

    def load(self) -> Document:
        """Return the document, or raise DocumentError with the reason for quarantine."""
        return self.parse(self.read())

    def read(self) -> bytes:
        """Return the raw bytes. Raise UnreadDocumentError if they can't be read or have changed."""
        try:
            if self.archive:
                member = self.relative.removeprefix(f"{self.archive}/")
                raw = read_member(self.base / self.archive, member)
                if self.offset is not None:
                    raw = raw[self.offset : self.offset + self.n_bytes]
            else:
                with (self.base / self.relative).open("rb") as file:
                    file.seek(self.offset or 0)
                    raw = file.read(self.n_bytes if self.offset is not None else -1)
        except OSError as error:
            raise UnreadDocumentError(self.document_id, _unreadable(error)) from None
        if hashlib.sha256(raw).hexdigest() != self.raw_hash:
            raise UnreadDocumentError(self.document_id, "it changed after it was listed; run again")
        return raw

    def parse(self, raw: bytes) -> Document:
        """Parse the raw bytes, or raise DocumentError with the reason for quarantine."""
        return self._from_file(raw) if self.offset is None else self._from_record(raw)

    def _from_file(self, raw: bytes) -> Document:
        path = PurePosixPath(self.relative)
        suffix = path.suffix.lower()
        if not raw:
            raise DocumentError(self.document_id, "empty: 0 bytes")
        if suffix in PARSERS:
            parsed = parse_apart(self.document_id, raw, suffix, self.settings)
            text, title = parsed.text, parsed.title
            if suffix != ".xlsx":  # the headings are names of sheets
                title = title or markdown_title(text) or first_line_title(text)
            title = title or _from_stem(path)
            document = self._document(text, title, parsed.metadata, page_map=parsed.page_map)
            if parsed.missing_extra:
                content_hash = hash_without(parsed.missing_extra, document.content_hash)
                document = replace(document, content_hash=content_hash)
            return document
        text, encoding = decode(self.document_id, raw, suffix)
        fields, body = front_matter(text) if suffix in _MARKDOWN else ({}, text)
        title = ""
        if suffix in _MARKDOWN:
            title = one_line(str(fields.pop("title", ""))) or markdown_title(body)
        if encoding:
            fields["encoding"] = encoding
        if suffix not in (".csv", ".tsv"):  # the first line has the names of columns
            title = title or first_line_title(body)
        return self._document(text, title or _from_stem(path), fields)

    def _from_record(self, raw: bytes) -> Document:
        record = read_record(self.document_id, raw)
        given, text = record.get("title"), record["text"]
        title = one_line(given) if isinstance(given, str) else ""
        if not title:
            title = first_line_title(text) or _from_stem(PurePosixPath(self.document_id))
        return self._document(text, title, record_metadata(record), "text/plain")

    def _document(
        self,
        text: str,
        title: str,
        fields: Mapping[str, MetadataValue],
        media_type: str | None = None,
        page_map: bytes | None = None,
    ) -> Document:
        path = PurePosixPath(self.relative)
        suffix = path.suffix.lower()
        folder = str(path.parent)
        language = language_of(text)
        quality = fields.get("text_quality")
        if page_map is not None:
            quality = with_known(str(quality), text, language)
        elif quality is None and (suffix in _PROSE or self.offset is not None):
            quality = doubts_of_prose(text, language)
        return Document(
            document_id=self.document_id,
            content_hash=self.content_hash,
            text=require_text(self.document_id, text),
            title=self.title or title,
            media_type=media_type or _MEDIA_TYPES.get(suffix, "text/plain"),
            metadata={
                **({"language": language} if language else {}),
                **fields,
                **({"text_quality": quality} if quality else {}),
                **self.given,
                "folder": "" if folder == "." else folder,
                "suffix": suffix,
                "bytes": self.n_bytes,
            },
            page_map=page_map,
        )


Source = SourceFile | Rejected


def is_prose(path: str) -> bool:
    """Return whether a file has a suffix of prose, as opposed to tables, code or data."""
    return PurePosixPath(path).suffix.lower() in (*_PROSE, ".pdf", *IMAGE_TYPES)


def _from_stem(path: PurePosixPath) -> str:
    return " ".join(path.stem.replace("_", " ").replace("-", " ").split()) or path.name


def scan(
    source: DocumentsSource,
    root: Path,
    seen: SeenFiles | None = None,
    files: Sequence[ListedFile] | None = None,
) -> Iterator[Source]:
    """List the documents of a folder or of one file, in order of document_id.

    `files` is by default the result of `list_files`. The iterator hashes each whole file when it
    reaches the file. Files that are unchanged since they were recorded in `seen` are not opened. If
    two documents have the same id, the second is rejected, and gets its path (and number) as id.
    Raise ConfigError if there is nothing to load.
    """
    base = folder_of(root)
    located: list[Located] = []
    is_left_out = matcher(*source.exclude, hidden=True)
    for name, reason, unread in list_files(source, root) if files is None else files:
        if reason:
            shown = _printable(name)
            located.append(Located(shown, name, reason=_printable(reason), unread=unread))
            continue
        try:
            found_in = _documents_of(base, name, source.max_bytes, seen)
            located.extend(d for d in found_in if not (d.archive and is_left_out(d.relative)))
        except OSError as error:
            located.append(Located(name, name, reason=_unreadable(error), unread=True))
    return _sources(_without_twins(located, base), base, source, seen)


def _documents_of(
    base: Path, name: str, max_bytes: int, seen: SeenFiles | None
) -> Sequence[Located]:
    """Return the documents of a file. A whole file is hashed later, unless `seen` has its hash."""
    status = os.stat(f"{base}/{name}")  # noqa: PTH116 - pathlib takes twice as long
    read_ns = time.time_ns()
    if seen is not None and (known := seen.get(name, status)) is not None:
        return known
    path = base / name
    if is_archive(name) or is_mail(name):
        found = list(locate_members(path, name, max_bytes))
    elif name.lower().endswith(RECORD_SUFFIXES):
        with path.open("rb") as file:
            found = list(locate(file, name, max_bytes))
    else:
        return [Located(name, name)]
    if seen is not None and all(d.reason or d.raw_hash for d in found):
        seen.put(name, status, found, read_ns)
    return found


def _hashed(base: Path, document: Located, seen: SeenFiles | None) -> Located:
    path = base / document.relative
    status, read_ns = path.stat(), time.time_ns()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        document = document._replace(raw_hash=digest, n_bytes=file.tell())
    if seen is not None:
        own = document._replace(document_id=document.relative, reason="", content_hash="")
        seen.put(document.relative, status, [own], read_ns)
    return document


def folder_of(root: Path) -> Path:
    """Return `root`, or the folder of the file `root`. Paths of a listing are below this folder."""
    return root.parent if root.is_file() else root


def list_files(source: DocumentsSource, root: Path) -> list[ListedFile]:
    """Return the matching files, unsorted, or raise ConfigError if there are none."""
    if root.is_file():
        return [ListedFile(root.name)]
    if not root.is_dir():
        raise ConfigError(f"documents.path: no such file or folder: {root}")
    settings = source.include, source.exclude, source.gitignore, source.follow_links
    try:
        found, seen = find_files(root, *settings)
        with_hidden = [] if found else find_files(root, *settings, hidden=True)[0]
    except OSError as error:
        raise ConfigError(f"documents.path: cannot read {root}: {error.strerror}") from None
    if with_hidden:
        raise ConfigError(
            f"documents.include: only hidden files in {root} match, and they are left out; to load "
            f"them, name them in include, such as {with_hidden[0].relative!r}"
        )
    if not seen:
        raise ConfigError(f"documents.path: no documents in {root}: the folder is empty")
    if not found:
        raise ConfigError(
            f"documents.include: none of the {seen} files in {root} matches include "
            f"{list(source.include)} but not exclude {list(source.exclude)}; change these patterns"
        )
    return found


def _without_twins(located: list[Located], base: Path) -> list[Located]:
    """Sort by document_id, and refuse duplicate ids. A refused document gets its path as id."""
    located.sort(key=_order)
    kept: list[Located] = []
    twins: list[tuple[Located, Located]] = []
    for document in located:
        if kept and kept[-1].document_id == document.document_id:
            twins.append((document, kept[-1]))
        else:
            kept.append(document)
    taken = {document.document_id for document in kept} if twins else set()
    for twin, first in twins:
        name = twin.place
        while name in taken:
            name += "+"
        taken.add(name)
        if not twin.reason:
            reason = f"duplicate document_id {first.document_id!r}: {first.place} already has it"
            content_hash = ""
            with suppress(OSError):
                raw_hash = twin.raw_hash or _hashed(base, twin, None).raw_hash
                content_hash = versioned_hash(twin.relative, raw_hash)
            twin = twin._replace(reason=reason, content_hash=content_hash)
        kept.append(twin._replace(document_id=name))
    kept.sort(key=_order)
    return kept


def _order(document: Located) -> tuple[str, bool, str, int]:
    return document.document_id, bool(document.reason), document.relative, document.offset


def _sources(
    located: list[Located], base: Path, source: DocumentsSource, seen: SeenFiles | None
) -> Iterator[Source]:
    for document in located:
        name, whole = document.document_id, document.length is None
        if document.reason:
            yield Rejected(name, document.content_hash, document.reason, document.unread)
            continue
        try:
            if not document.raw_hash:
                document = _hashed(base, document, seen)
        except OSError as error:
            yield Rejected(name, "", _unreadable(error), unread=True)
            continue
        raw_hash, n_bytes = document.raw_hash, document.n_bytes
        content_hash = versioned_hash(document.relative, raw_hash)
        if whole and n_bytes > source.max_bytes:
            yield Rejected(name, content_hash, oversized(n_bytes, source.max_bytes))
        else:
            offset = None if whole else document.offset
            place = (base, document.relative, source, offset, raw_hash)
            yield SourceFile(name, content_hash, n_bytes, *place, archive=document.archive)
    if seen is not None:
        seen.save()


def versioned_hash(name: str, digest: str, version: int = 0) -> str:
    """Combine a file's digest and a parser version into a hash. Version 0 means the current one."""
    version = version or parser_version(name)
    return digest if version == 1 else hashlib.sha256(f"{version} {digest}".encode()).hexdigest()


def parser_version(name: str) -> int:
    """Return the current version of the parser for a file's suffix."""
    return PARSER_VERSIONS.get(posixpath.splitext(name)[1].lower(), 1)


def _printable(text: str) -> str:
    return UNSAFE.sub(lambda wrong: repr(wrong[0])[1:-1], text)


def _unreadable(error: OSError) -> str:
    return f"cannot read the file: {error.strerror or error}"
