"""Find documents for a question in a folder, with a SearXNG server or with a model's web search.

All results are data. They are decoded, stripped of markup and shortened. No link is followed and no
page is fetched, so a result cannot make this machine call an address. Only the text of the search
result itself is kept.
"""

import hashlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

import pyarrow as pa

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import (
    CorpusConfig,
    DocumentsSource,
    Expansion,
    FolderSource,
    Lexical,
    SearxngSource,
)
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import ConfigError, DocumentError, ProviderError
from rag_pipeline.loading.parsers import parse
from rag_pipeline.loading.sources import SourceFile, scan
from rag_pipeline.loading.text import one_line, require_text, storable
from rag_pipeline.search.lexical_index import LexicalIndex, build_lexical_index, open_lexical_index

_MOST_FILE_BYTES = 10_000_000
_MOST_REPLY_BYTES = 2_000_000
_RANKED_PASSAGES = 50
_TITLE_CHARACTERS = 200
_TAG = re.compile(r"<[a-zA-Z/!][^>]{0,500}>")
_PASSAGES = RecursiveChunking(method="recursive", max_characters=1000)


WebResult = tuple[Any, Any, Any]
"""The unchecked address, title and text of a search result. Each may have any type."""


class OutsideSource(Protocol):
    """A source of documents outside the corpus. Their ids are paths or addresses."""

    def find(self, query: str, k: int, indexed: Collection[str]) -> list[Document]:
        """Return at most k documents, best first. Leave out content hashes in `indexed`.

        Raise ProviderError or ConfigError, with the cause, if the source cannot be reached.
        """


def open_source(config: CorpusConfig, expansion: Expansion) -> OutsideSource:
    """Return the source in the settings `expansion`, without opening it."""
    look_in, most = expansion.look_in, expansion.max_characters
    if isinstance(look_in, FolderSource):
        return Folder(config.path(look_in.path), most)
    if isinstance(look_in, SearxngSource):
        return WebPages(partial(ask_searxng, look_in), most)
    return WebPages(partial(ask_web_search, config, look_in.chat), most)


@dataclass(frozen=True, slots=True)
class WebPages:
    """The results of a web search as documents. No page is fetched."""

    search: Callable[[str], Iterable[WebResult]]
    max_characters: int

    def find(self, query: str, k: int, indexed: Collection[str]) -> list[Document]:
        """Return the first k results with an address and a text that are not in `indexed`."""
        pages = (page(*result, self.max_characters) for result in self.search(query))
        return [p for p in pages if p is not None and p.content_hash not in indexed][:k]


class Folder:
    """A folder of documents, ranked by the BM25 scores of their best passages.

    For each question, the folder's files are hashed. If a file has changed, a new index is built.
    """

    def __init__(self, path: Path, max_characters: int) -> None:
        self._path = path
        self._max_characters = max_characters
        self._lock = threading.Lock()
        self._listed: list[tuple[str, str]] = []
        self._index: LexicalIndex | None = None

    def find(self, query: str, k: int, indexed: Collection[str]) -> list[Document]:
        """Return at most k documents that share a term with the query, by their best passages.

        Raise ConfigError if the folder cannot be read.
        """
        settings = DocumentsSource(path=str(self._path), max_bytes=_MOST_FILE_BYTES)
        try:
            found = [s for s in scan(settings, self._path) if isinstance(s, SourceFile)]
        except ConfigError as error:
            reason = str(error).removeprefix("documents.path: ")
            raise ConfigError(f"assistant.expansion.look_in.path: {reason}") from None
        sources = {s.document_id: s for s in found if s.content_hash not in indexed}
        with self._lock:
            index = self._ranked(sources)
        ranked: dict[str, None] = {}
        for chunk_id, _ in index.search(query, _RANKED_PASSAGES * k):
            ranked.setdefault(chunk_id.rpartition("#")[0])
        made: list[Document] = []
        for document_id in ranked:
            with suppress(DocumentError):  # the file has just been changed or deleted
                made.append(self._load(sources[document_id]))
            if len(made) == k:
                break
        return made

    def _load(self, source: SourceFile) -> Document:
        document = source.load()
        return replace(document, text=cut(document.text, self._max_characters), page_map=None)

    def _ranked(self, sources: Mapping[str, SourceFile]) -> LexicalIndex:
        listed = [(s.document_id, s.content_hash) for s in sources.values()]
        if self._index is None or listed != self._listed:
            # The memory-mapped index remains usable after its folder is deleted.
            with tempfile.TemporaryDirectory(prefix="rag-outside-") as name:
                folder = Path(name) / "index"
                build_lexical_index("bm25s", self._passages(sources), Lexical(), folder)
                self._index = open_lexical_index(folder)
            self._listed = listed
        return self._index

    def _passages(self, sources: Mapping[str, SourceFile]) -> Iterator[pa.RecordBatch]:
        for source in sources.values():
            try:
                document = self._load(source)
            except DocumentError:
                continue
            passages = chunk(document, _PASSAGES)
            if passages:
                yield pa.record_batch(
                    {
                        "chunk_id": [c.chunk_id for c in passages],
                        "document_id": [c.document_id for c in passages],
                        "start": [c.start for c in passages],
                        "text": [c.text for c in passages],
                        "title": [document.title] * len(passages),
                        "context": [document.title] * len(passages),
                    }
                )


def ask_searxng(settings: SearxngSource, query: str) -> Iterator[WebResult]:
    """Yield the addresses, titles and snippets of a SearXNG server's first results.

    The server must allow the JSON format: https://docs.searxng.org/dev/search_api
    """
    import httpx

    address, seconds = settings.base_url.rstrip("/") + "/search", settings.timeout_seconds
    hints = {403: "; does its settings.yml have `json` under search.formats?"}
    try:
        # A redirect is an error, because it could lead to another server.
        parameters = {"q": query, "format": "json"}
        stream = httpx.stream("GET", address, params=parameters, timeout=seconds)
        made = bounded_json(address, stream, seconds, _MOST_REPLY_BYTES, hints)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ProviderError(f"{address}: cannot be reached: {reason}") from None
    results = made.get("results") if isinstance(made, dict) else None
    if not isinstance(results, list):
        raise ProviderError(f"{address}: the reply is not SearXNG's JSON")
    for result in results[: settings.results]:
        if isinstance(result, dict):
            yield result.get("url"), result.get("title"), result.get("content")


def bounded_json(
    what: str,
    stream: AbstractContextManager[Any],
    seconds: float,
    most_bytes: int,
    hints: Mapping[int, str] = MappingProxyType({}),
) -> Any:
    """Return the JSON of a streamed httpx reply.

    Raise ProviderError if the reply takes more than `seconds`, has more than `most_bytes`, or is
    not JSON. The error begins with `what`. `hints` has endings of the error by HTTP status.
    """
    end = time.monotonic() + seconds
    with stream as reply:
        if (status := reply.status_code) != 200:
            raise ProviderError(f"{what} answered {status}{hints.get(status, '')}")
        content = bytearray()
        for part in reply.iter_bytes():
            content += part
            if len(content) > most_bytes:
                raise ProviderError(f"{what}: the reply has more than {most_bytes:,} bytes")
            if time.monotonic() > end:  # httpx limits the time of each read, not of the reply
                raise ProviderError(f"{what}: no complete reply within {seconds:g} s")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ProviderError(f"{what}: the reply is not JSON") from None


def ask_web_search(config: CorpusConfig, chat: str, query: str) -> Iterator[WebResult]:
    """Yield the pages that OpenAI's web search tool finds, with a model's statements about them."""
    from rag_pipeline.models.providers.openai import OpenAIProtocol
    from rag_pipeline.models.providers.openai_web_search import search_web

    settings = config.chat(chat)
    if not isinstance(settings, OpenAIProtocol):
        raise ConfigError(f"chats.{chat}: {settings.provider} has no web search tool")
    for found in search_web(query, settings):
        yield found.url, found.title, found.text


def page(url: Any, title: Any, text: Any, max_characters: int) -> Document | None:
    """Return a search result as a document without markup, or None for an unusable result."""
    if not (isinstance(url, str) and isinstance(text, str)) or not is_web_address(url):
        return None
    text = text[: 4 * max_characters]  # a generous limit, because markup is removed later
    try:
        if _TAG.search(text):
            text = parse(url, text.encode("utf-8", "replace"), ".html", _MOST_REPLY_BYTES).text
        text = require_text(url, cut(str(storable(text)), max_characters))
        heading = str(storable(title)) if isinstance(title, str) else ""
        if _TAG.search(heading):
            heading = parse(url, heading.encode("utf-8", "replace"), ".html", 10_000).text
    except DocumentError:
        return None
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Document(url, digest, text, title=one_line(heading)[:_TITLE_CHARACTERS] or url)


def is_web_address(url: str) -> bool:
    """Return whether a text is a printable http or https address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    plain = url.isprintable() and len(url) <= 2_000 and " " not in url
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def cut(text: str, characters: int) -> str:
    """Return the first `characters` characters of a text, or fewer to end between words."""
    if len(text) <= characters:
        return text
    head = text[:characters]
    place = max(head.rfind(" "), head.rfind("\n"))
    return head[:place] if place > characters // 2 else head
