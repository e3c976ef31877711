"""Index documents for BM25 by their file name, title and first characters, and search them."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from operator import attrgetter
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cachetools import LRUCache, cachedmethod

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index.engines import Bm25sEngine, Engine, Hits, Rows
from rag_pipeline.search.lexical_index.postings import PostingsBuilder, load_matrix
from rag_pipeline.search.standing import standings
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline.store.schemas import required

_FILE = "documents.arrow"
_SCHEMA = pa.schema(required(pa.string(), "document_id"))
_HEAD_CHARACTERS = 1000
_NAME_WEIGHT = 3
_BATCH = 4096
_SEPARATORS = re.compile(r"[\s_+-]+")
_NAMES_READ = 2_000
_MAX_KNOWN = 50_000
_MISSPELT = 0.95
"""Weight of a term whose spelling is corrected. An exact term has the weight 1."""
_LENGTHS_CORRECTED = (5, 20)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class DocumentHeads:
    """The title and the head (the first 1,000 characters) of each document.

    Chunks may be added in any order.
    """

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}
        self._pieces: dict[str, list[tuple[int, str]]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add chunks with the columns document_id, start, text and title."""
        names = ("document_id", "start", "text", "title")
        columns = (batch.column(name).to_pylist() for name in names)
        for document_id, start, text, title in zip(*columns, strict=True):
            pieces = self._pieces.setdefault(document_id, [])
            self._titles[document_id] = title or ""
            if start < _HEAD_CHARACTERS:
                pieces.append((start, text[: _HEAD_CHARACTERS - start]))

    def document_ids(self) -> Collection[str]:
        """Return the ids of the documents of all added chunks."""
        return self._pieces.keys()

    def records(self) -> Iterator[tuple[str, str]]:
        """Yield each document's id and its file name (three times), title and head, by id."""
        for document_id in sorted(self._pieces):
            name = " ".join([readable_name(document_id)] * _NAME_WEIGHT)
            head = "".join(self._head(document_id))
            yield document_id, f"{name}\n{self._titles[document_id]}\n{head}"

    def _head(self, document_id: str) -> Iterator[str]:
        done = 0
        for start, text in sorted(self._pieces[document_id]):
            if start + len(text) > done:  # chunks may overlap
                yield ("\n" if start > done else "") + text[max(done - start, 0) :]
                done = start + len(text)


def readable_name(document_id: str) -> str:
    """Return a file name as words: `nda/Acme%20Inc_v2.txt` becomes `Acme Inc v2`."""
    return _SEPARATORS.sub(" ", unquote(PurePosixPath(document_id).stem)).strip()


def write_documents(
    heads: DocumentHeads,
    settings: Lexical,
    tokenizer: Tokenizer,
    folder: Path,
    earlier: Path | None = None,
    kept: Collection[str] = (),
) -> None:
    """Write the index of the given documents, and of the documents `kept` of an earlier index."""
    folder.mkdir()
    ids = sorted({*heads.document_ids(), *kept})
    number = {document_id: row for row, document_id in enumerate(ids)}
    postings = PostingsBuilder()
    if earlier is not None:
        known = _read_ids(earlier).to_pylist()
        keeping = set(kept)
        moved = np.array([number[d] if d in keeping else -1 for d in known], np.int64)
        postings.carry_over(load_matrix(earlier), moved)
    records = heads.records()
    while batch := list(islice(records, _BATCH)):
        rows = np.array([number[document_id] for document_id, _ in batch], np.int64)
        postings.add([tokenizer.tokenize(text) for _, text in batch], rows)
    Bm25sEngine.write_matrix(postings.matrix(), settings, folder)
    with pa.ipc.new_file(str(folder / _FILE), _SCHEMA) as writer:
        writer.write_batch(pa.record_batch([pa.array(ids, pa.string())], schema=_SCHEMA))


def _read_ids(folder: Path) -> pa.ChunkedArray:
    return pa.ipc.open_file(pa.memory_map(str(folder / _FILE))).read_all().column("document_id")


class DocumentIndex:
    """An opened index of documents. Threads may share it.

    `bodies` is the engine that searches the documents' `chunks`. Without `bodies`, the rarity of a
    term is its rarity in names, titles and heads.
    """

    def __init__(
        self,
        folder: Path,
        settings: Lexical,
        tokenizer: Tokenizer,
        bodies: Engine | None = None,
        chunks: pa.Table | None = None,
    ) -> None:
        self.document_ids: pa.ChunkedArray = _read_ids(folder)
        self.terms = tokenizer.tokenize
        self._bodies = bodies
        self._chunks = chunks
        has_terms = len(list(folder.iterdir())) > 1
        self.engine = Bm25sEngine(folder, settings) if has_terms else None
        self._known: LRUCache[Hashable, Hits] = LRUCache(_MAX_KNOWN)
        self._lock = Lock()
        self._rows: Rows = np.arange(len(self.document_ids))
        self.count = len(self._rows)
        # The first query would wait for a later computation.
        self.kinds = self._kinds(self.document_ids)

    def __len__(self) -> int:
        return len(self.document_ids)

    def only(self, document_ids: pa.Array, bodies: Engine | None) -> "DocumentIndex":
        """Return the index of the given documents. Other documents are not found or counted.

        `bodies` is the engine of the given documents' chunks. Rows keep their numbers.
        """
        import pyarrow.compute as pc

        visible = pc.is_in(self.document_ids, value_set=document_ids)
        seen = copy(self)
        seen.engine = self.engine and self.engine.only(visible.to_numpy())
        seen._bodies, seen._known = bodies, LRUCache(_MAX_KNOWN)
        # `cachedmethod` keeps a function in the object that would read the documents of `self`.
        for about_all in ("_rows_by_name", "outdated", "named_by"):
            seen.__dict__.pop(about_all, None)
        seen._rows = np.flatnonzero(visible.to_numpy())
        seen.count = len(seen._rows)
        seen.kinds = self._kinds(self.document_ids.filter(visible))
        return seen

    def _kinds(self, document_ids: pa.ChunkedArray) -> frozenset[str]:
        """Return the terms that at least two of the first 2,000 file names have in common."""
        first = document_ids.slice(0, _NAMES_READ).to_pylist()
        counts = Counter(term for document_id in first for term in self.name_terms(document_id))
        return frozenset(term for term, count in counts.items() if count > 1)

    def name_terms(self, document_id: str) -> frozenset[str]:
        """Return the terms of a document's file name."""
        return frozenset(self.terms(readable_name(document_id)))

    @cached_property
    def outdated(self) -> dict[int, str]:
        """Return the ids of drafts, old versions and copies by row (see `search.standing`)."""
        ids = self.document_ids.to_pylist()
        shown = {row: ids[row] for row in self._rows.tolist()}
        known = standings(shown.values())
        return {row: document_id for row, document_id in shown.items() if document_id in known}

    def rows_named(self, name: str) -> Sequence[int]:
        """Return the rows of the documents with exactly this file name, in any case."""
        return self._rows_by_name.get(_SEPARATORS.sub(" ", name).strip().casefold(), ())

    @cached_property
    def _rows_by_name(self) -> dict[str, list[int]]:
        rows = self._rows[:_MAX_KNOWN]
        found: defaultdict[str, list[int]] = defaultdict(list)
        for name, row in zip(self.document_ids.take(rows).to_pylist(), rows.tolist(), strict=True):
            found[readable_name(name).casefold()].append(row)
        return dict(found)

    @cachedmethod(attrgetter("_known"), lock=attrgetter("_lock"))
    def named_by(self, term: str) -> Hits:
        """Return the rows of the documents that a term may name, each with a strength (0 to 1).

        The name, title or head of these documents has the term. The strength is the term's BM25
        score without idf, times a relative idf. The relative idf is the term's idf among whole
        documents, divided by the idf of a term in one document. A known term that differs by one
        edit replaces an unknown term.
        """
        weight = 1.0
        if self.engine is not None and not self.engine.frequencies([term])[0]:
            term, weight = self._corrected(term) or "", _MISSPELT
        if self.engine is None or not term:
            return Hits(np.empty(0, np.int64), np.empty(0))
        rows, scores = self.engine.postings(term)
        weight *= _idf(self.count, max(len(rows), self._holding(term))) / _idf(self.count, 1)
        return Hits(rows, scores * weight / _idf(self.count, len(rows)))

    def share_holding(self, term: str) -> float:
        """Return the share (0 to 1) of documents that have a term in text, title or name."""
        in_heads = int(self.engine.frequencies([term])[0]) if self.engine is not None else 0
        return max(in_heads, self._holding(term)) / max(self.count, 1)

    def _holding(self, term: str) -> int:
        if self._bodies is None:
            return 0
        held = np.zeros(len(self), np.bool_)
        held[self._document_of[self._bodies.holding(term)]] = True
        return int(np.count_nonzero(held))

    @cached_property
    def _document_of(self) -> Rows:
        import pyarrow.compute as pc

        assert self._chunks is not None
        numbers = pc.index_in(self._chunks.column("document_id"), value_set=self.document_ids)
        of_rows: Rows = numbers.to_numpy().astype(np.int64)
        return of_rows

    def _corrected(self, term: str) -> str | None:
        """Return the rarest indexed term that differs by one edit, or None.

        Known, very short and very long terms and terms with a digit are not corrected.
        """
        assert self.engine is not None
        has_digit = any(map(str.isdigit, term))
        if has_digit or not _LENGTHS_CORRECTED[0] <= len(term) <= _LENGTHS_CORRECTED[1]:
            return None
        near = sorted(_one_edit_away(term))
        counts = self.engine.frequencies(near)
        held = [(int(count), other) for count, other in zip(counts, near, strict=True) if count]
        return min(held)[1] if held and not self._holding(term) else None

    def scores(self, text: str) -> npt.NDArray[np.float32]:
        """Return each document's score for a text, 0 to 1, shape (documents,).

        The score is BM25 over name, title and head, divided by the sum of the terms' idf. Unknown
        terms count as the rarest terms.
        """
        terms = sorted(set(self.terms(text)))
        if self.engine is None or not terms:
            return np.zeros(len(self), np.float32)
        idf = _idf(self.count, self.engine.frequencies(terms))
        scores: npt.NDArray[np.float32] = self.engine.scores(terms) / idf.sum()
        return scores.astype(np.float32)


def _idf(documents: int, holding: Any) -> Any:
    return np.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def _one_edit_away(term: str) -> set[str]:
    """Return all terms with one character swapped, dropped, changed or added."""
    halves = [(term[:n], term[n:]) for n in range(len(term) + 1)]
    made = {a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1}
    made |= {a + b[1:] for a, b in halves if b}
    made |= {a + letter + b[1:] for a, b in halves if b for letter in _LETTERS}
    made |= {a + letter + b for a, b in halves for letter in _LETTERS}
    return made - {term}
