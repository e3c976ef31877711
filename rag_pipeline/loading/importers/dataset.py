"""Hold a data set in memory, and check its gold spans against the texts."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rag_pipeline.errors import InputError
from rag_pipeline.loading.folder import UNSAFE

_NAME_BYTES = 180
"""Maximum bytes of a name without number and extension. File systems allow 255 bytes."""


class SpanNotFoundError(InputError):
    """A gold span is not in its document, so the importer skips the query."""


@dataclass(frozen=True, slots=True)
class GivenSpan:
    """A gold span in the form of the data set. `content` is its text, or None if unknown."""

    document_id: str
    start: int
    end: int
    content: str | None = None


def locate(text: str, start: int, end: int, content: str | None) -> tuple[int, int]:
    """Return the start and end of a given span in the document's text.

    If `content` is None, the offsets must be inside the text. Otherwise the text at the offsets
    must equal `content`, before or after line endings are translated to newlines. If it differs,
    `content` must occur exactly once. Raise SpanNotFoundError if there is no such span.
    """
    if content is None:
        if not 0 <= start < end <= len(text):
            raise SpanNotFoundError(f"it is empty or outside the {len(text)} characters")
        return start, end
    if not content:
        raise SpanNotFoundError("its text is empty")
    if start >= 0 and text[start:end] == content:
        return start, start + len(content)
    translated, places = _text_mode(text)
    content = _text_mode(content)[0]
    if start < 0 or translated[start:end] != content:
        start = translated.find(content)
        if start < 0:
            raise SpanNotFoundError("its text is not in the document")
        if translated.find(content, start + 1) >= 0:
            raise SpanNotFoundError("its text is not at the offsets, but at several other places")
    return places[start], places[start + len(content)]


@lru_cache(maxsize=2)
def _text_mode(text: str) -> tuple[str, Sequence[int]]:
    """Return a text with newlines as line endings, and the old offsets of characters and end."""
    if "\r" not in text:
        return text, range(len(text) + 1)
    places = [m.start() for m in re.finditer(r"\r\n|.", text, re.DOTALL)]
    return text.replace("\r\n", "\n").replace("\r", "\n"), [*places, len(text)]


@dataclass(slots=True)
class DataSet:
    """A data set in memory, which the module of its format fills."""

    documents: dict[str, str] = field(default_factory=dict)
    queries: list[dict[str, Any]] = field(default_factory=list)
    """The lines of `queries.jsonl` as JSON objects."""
    chunks: list[dict[str, Any]] | None = None
    """The lines of `chunks.jsonl` as JSON objects, or None if the data set has no chunks."""
    skipped: list[str] = field(default_factory=list)
    reanchored: int = 0
    _taken: set[str] = field(default_factory=set)

    def skip(self, what: str, reason: str) -> None:
        """Record an omitted query, document or chunk."""
        self.skipped.append(f"{what}: {reason}")

    def add_document(self, name: str, text: str) -> str:
        """Add a document. Return its file name, made from its `name` or id in the data set."""
        name = re.sub(r'[/\\:*?"<>|]', "_", UNSAFE.sub("_", name)).strip(" .")
        name = re.sub(r"\.txt$", "", name, flags=re.IGNORECASE)
        name = name.encode()[:_NAME_BYTES].decode(errors="ignore").strip(" .") or "document"
        numbered = (f"{name} ({number}).txt" for number in itertools.count(2))
        candidates = itertools.chain([f"{name}.txt"], numbered)
        document_id = next(one for one in candidates if one.casefold() not in self._taken)
        self._taken.add(document_id.casefold())
        self.documents[document_id] = text
        return document_id

    def add_judged(self, query_id: str, query: str, grades: Mapping[str, int]) -> None:
        """Add a query with whole documents as gold. `grades` has each document's grade above 0."""
        if not grades:
            self.skip(query_id, "no relevant document in the set")
            return
        gold = [
            {"document_id": document_id} | ({"grade": grade} if grade > 1 else {})
            for document_id, grade in sorted(grades.items())
        ]
        self.queries.append({"query_id": query_id, "query": query, "gold_spans": gold, "tags": []})

    def add_query(
        self,
        query_id: str,
        query: str,
        evidence: Iterable[GivenSpan],
        *,
        answer: str | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Add a query with its evidence as gold spans, or skip it if a span is not found."""
        gold: dict[tuple[str, int, int], dict[str, Any]] = {}
        moved = 0
        for given in evidence:
            what = f"span {given.start}-{given.end} of {given.document_id!r}"
            text = self.documents.get(given.document_id)
            if text is None:
                self.skip(query_id, f"{what}: the document is not in the set")
                return
            try:
                start, end = locate(text, given.start, given.end, given.content)
            except SpanNotFoundError as error:
                self.skip(query_id, f"{what}: {error}")
                return
            moved += (start, end) != (given.start, given.end)
            gold[given.document_id, start, end] = span_of(given.document_id, start, end)
        if not gold:
            self.skip(query_id, "no evidence")
            return
        self.reanchored += moved
        answered = {} if answer is None else {"answer": answer}
        made = {"query_id": query_id, "query": query, "gold_spans": list(gold.values())}
        self.queries.append({**made, **answered, "tags": list(dict.fromkeys(tags))})


def span_of(document_id: str, start: int, end: int) -> dict[str, Any]:
    """Return a span as a JSON object."""
    return {"document_id": document_id, "start": start, "end": end}
