"""BM25 over whole documents by what names them: file name, title, first characters."""

import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index.bm25s_engine import Bm25sEngine
from rag_pipeline.search.lexical_index.postings import PostingsBuilder, load_matrix
from rag_pipeline.search.tokenization import Tokenizer

_FILE = "documents.arrow"
_SCHEMA = pa.schema([pa.field("document_id", pa.string(), nullable=False)])
_HEAD_CHARACTERS = 1000
_NAME_WEIGHT = 3
_BATCH = 4096
_SEPARATORS = re.compile(r"[\s_+-]+")


class DocumentHeads:
    """Gathers each document's record from its chunks, in whatever order they come."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}
        self._pieces: dict[str, list[tuple[int, str]]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in chunks: the columns document_id, start, text and title."""
        names = ("document_id", "start", "text", "title")
        columns = (batch.column(name).to_pylist() for name in names)
        for document_id, start, text, title in zip(*columns, strict=True):
            pieces = self._pieces.setdefault(document_id, [])
            self._titles[document_id] = title or ""
            if start < _HEAD_CHARACTERS:
                pieces.append((start, text[: _HEAD_CHARACTERS - start]))

    def document_ids(self) -> Collection[str]:
        """Return the documents that have chunks."""
        return self._pieces.keys()

    def records(self) -> Iterator[tuple[str, str]]:
        """Yield (document_id, what names it), by document_id."""
        for document_id in sorted(self._pieces):
            name = " ".join([readable_name(document_id)] * _NAME_WEIGHT)
            head = "".join(self._head(document_id))
            yield document_id, f"{name}\n{self._titles[document_id]}\n{head}"

    def _head(self, document_id: str) -> Iterator[str]:
        done = 0
        for start, text in sorted(self._pieces[document_id]):
            if start + len(text) > done:  # overlapping chunks hold some characters twice
                yield ("\n" if start > done else "") + text[max(done - start, 0) :]
                done = start + len(text)


def readable_name(document_id: str) -> str:
    """Return the words of a file's name: `nda/Acme%20Inc_v2.txt` is `Acme Inc v2`."""
    return _SEPARATORS.sub(" ", unquote(PurePosixPath(document_id).stem)).strip()


def write_documents(
    heads: DocumentHeads,
    settings: Lexical,
    tokenizer: Tokenizer,
    folder: Path,
    earlier: Path | None = None,
    kept: Collection[str] = (),
) -> None:
    """Write the index of the gathered documents, and of those kept of an earlier one."""
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
    """The opened index of documents; safe to share between threads."""

    def __init__(self, folder: Path, settings: Lexical, tokenizer: Tokenizer) -> None:
        self.document_ids: pa.ChunkedArray = _read_ids(folder)
        self._tokenizer = tokenizer
        has_terms = len(list(folder.iterdir())) > 1
        self._engine = Bm25sEngine(folder, settings) if has_terms else None

    def __len__(self) -> int:
        return len(self.document_ids)

    def scores(self, text: str) -> npt.NDArray[np.float32]:
        """Return how far each document's name and head cover the distinct terms, shape (len,).

        BM25 divided by the sum of the terms' idf, where a term that no document holds counts as
        the rarest: 0 for nothing in common; 1 is passed only by documents that repeat every term.
        """
        terms = sorted(set(self._tokenizer.tokenize(text)))
        if self._engine is None or not terms:
            return np.zeros(len(self), np.float32)
        holding = self._engine.frequencies(terms)
        idf = np.log(1 + (len(self) - holding + 0.5) / (holding + 0.5))
        scores: npt.NDArray[np.float32] = (self._engine.scores(terms) / idf.sum()).astype(
            np.float32
        )
        return scores
