"""Index contextualized chunks for BM25 in an immutable folder, and search them.

All three engines use one formula. The score of a chunk is the sum over the query's terms of

    ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * dl / avgdl))

N is the number of chunks, and n of them contain the term. The chunk has dl terms, and tf of them
are this term. avgdl is the mean of dl over all chunks. Source: Kamphuis et al., "Which BM25 Do You
Mean?", ECIR 2020 (Lucene).

With a `text_weight` of w, terms of the text count w times, and terms of the context count once. k1
is then multiplied by w, which keeps the scores of chunks without context. Source: Robertson,
Zaragoza & Taylor, "Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Mask
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.search.lexical_index.documents import DocumentHeads, write_documents
from rag_pipeline.search.lexical_index.documents import DocumentIndex as DocumentIndex
from rag_pipeline.search.lexical_index.engines import (
    Bm25sEngine,
    Engine,
    Hits,
    RankBm25Engine,
    Rows,
)
from rag_pipeline.search.lexical_index.lance import LANCE_B, LANCE_K1, LanceEngine
from rag_pipeline.search.lexical_index.postings import PostingsBuilder, idf, load_matrix
from rag_pipeline.search.tokenization import Tokenizer, tokenizer_of
from rag_pipeline.store.schemas import required

_ENGINES: dict[str, type[Engine]] = {
    "bm25s": Bm25sEngine,
    "rank_bm25": RankBm25Engine,
    "lance": LanceEngine,
}

_FORMAT = 3
"""Version of the files' format, to increase when the files or their terms change."""

_MANIFEST = "index.json"
_CHUNKS = "chunks.arrow"
_DOCUMENTS = "documents"
_MAX_KNOWN = 50_000
_CHUNKS_SCHEMA = pa.schema(required(pa.string(), "chunk_id", "document_id"))


@dataclass(frozen=True, slots=True)
class EarlierIndex:
    """The folder of an index with the same settings, and the ids of its unchanged documents."""

    folder: Path
    kept: Collection[str]


class LexicalIndex:
    """An opened index. Threads may share it."""

    def __init__(
        self,
        chunks: pa.Table,
        tokenizer: Tokenizer,
        engine: Engine | None,
        documents: DocumentIndex,
    ) -> None:
        self.chunk_ids: pa.ChunkedArray = chunks.column("chunk_id")
        self.document_ids: pa.ChunkedArray = chunks.column("document_id")
        self.documents = documents
        self._tokenizer = tokenizer
        self._engine = engine
        self._count = len(chunks)
        # A partial without `self` makes no reference cycle, so memory is freed with the index.
        self._holding = lru_cache(maxsize=_MAX_KNOWN)(partial(_count_holding, engine))

    def __len__(self) -> int:
        return len(self.chunk_ids)

    def check(self) -> None:
        """Raise ValueError or TypeError if an engine's files have wrong content."""
        for engine in (self._engine, self.documents.engine):
            if isinstance(engine, Bm25sEngine):
                engine.check()

    @property
    def detects_language(self) -> bool:
        """Return whether the language of each text is detected."""
        return self._tokenizer.detects_language

    def only(self, document_ids: pa.Array) -> "LexicalIndex":
        """Return the index of the given documents. Other documents are not found or counted.

        With the engine `lance`, BM25 scores still count all documents.
        """
        import pyarrow.compute as pc

        visible = pc.is_in(self.document_ids, value_set=document_ids).to_numpy()
        engine = self._engine and self._engine.only(visible)
        seen = copy(self)
        seen._engine, seen._count = engine, int(np.count_nonzero(visible))
        seen._holding = lru_cache(maxsize=_MAX_KNOWN)(partial(_count_holding, engine))
        seen.documents = self.documents.only(document_ids, engine)
        return seen

    def search(self, query: str, k: int, allowed: Mask | None = None) -> list[tuple[str, float]]:
        """Return at most `k` pairs (chunk_id, BM25 score), best first. Ties are ordered by id.

        Every returned chunk has a term of the query. `allowed` has a flag per chunk. The statistics
        of BM25 also count chunks that are not allowed.
        """
        found = self.search_rows(query, k, allowed)
        ids = self.chunk_ids.take(found.rows).to_pylist()
        ranked = zip(ids, found.scores.tolist(), strict=True)
        return sorted(ranked, key=lambda hit: (-hit[1], hit[0]))[:k]

    def search_rows(
        self, query: str, k: int, allowed: Mask | None = None, also: Rows | None = None
    ) -> Hits:
        """Return the k best rows, the ties of the k-th row, and the rows of `also`, unordered.

        Every returned row scores above 0. All rows of `also` must be allowed.
        """
        terms = self._tokenizer.tokenize(query)
        if self._engine is None or not terms or k < 1:
            return Hits(np.empty(0, np.int64), np.empty(0))
        return self._engine.search(terms, k, allowed, also)

    def max_score(self, query: str) -> float:
        """Return the approximate BM25 score of a chunk that matches every word of a query.

        The score is the sum of the idf of all terms. Unknown words count as the rarest words.
        """
        total = 0.0
        counted: set[str] = set()
        for word in query.split():
            terms = [t for t in self._tokenizer.tokenize(word) if t not in counted]
            counted.update(terms)
            held = [n for n in map(self._holding, terms) if n]
            if terms:
                total += sum(idf(self._count, n) for n in held) if held else idf(self._count, 0)
        return total


def _count_holding(engine: Engine | None, term: str) -> int:
    return len(engine.holding(term)) if engine is not None else 0


def check_engine(engine: str, settings: Lexical) -> None:
    """Raise ConfigError if the engine is unknown or does not support the settings."""
    if engine not in _ENGINES:
        raise ConfigError(f"lexical engine {engine!r} is not one of: {', '.join(_ENGINES)}")
    got = (settings.k1, settings.b, settings.text_weight)
    if engine == "lance" and got != (LANCE_K1, LANCE_B, 1):
        raise ConfigError(
            f"lexical: the engine lance needs k1 = {LANCE_K1}, b = {LANCE_B} and text_weight = 1, "
            f"got k1 = {got[0]}, b = {got[1]} and text_weight = {got[2]}. Leave these settings out "
            f"or choose another engine"
        )


def build_lexical_index(
    engine: str,
    batches: Iterable[pa.RecordBatch],
    settings: Lexical,
    folder: Path,
    earlier: EarlierIndex | None = None,
) -> int:
    """Write the index of some chunks into a new or empty folder. Return the number of chunks.

    `batches` have the columns chunk_id, document_id, start, text, title and context (nullable).
    Batches are read once. `bm25s` needs 12 bytes of memory for each distinct term of each chunk.

    With an `earlier` index (bm25s only), `batches` hold only the chunks of new and changed
    documents. The result equals a full build except for the order of the chunks.

    Raise ConfigError for unsupported settings. Raise StoreError if the folder is not empty.
    """
    import pyarrow.compute as pc

    check_engine(engine, settings)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise StoreError(f"{folder}: not empty; name a new folder for the lexical index")
    rows = 0
    tokenizer, heads = Tokenizer(settings), DocumentHeads()
    weighted, weight = _of_weighted(settings), settings.text_weight
    with pa.ipc.new_file(str(folder / _CHUNKS), _CHUNKS_SCHEMA) as writer:

        def tokenized() -> Iterator[list[list[str]]]:
            nonlocal rows
            for batch in batches:
                ids = [batch.column(f.name).cast(f.type) for f in _CHUNKS_SCHEMA]
                writer.write_batch(pa.record_batch(ids, schema=_CHUNKS_SCHEMA))
                rows += batch.num_rows
                heads.add(batch)
                contexts = (context or "" for context in batch.column("context").to_pylist())
                texts = batch.column("text").to_pylist()
                yield [
                    tokenizer.tokenize(context) + weight * tokenizer.tokenize(text)
                    for context, text in zip(contexts, texts, strict=True)
                ]

        if earlier is None:
            terms = _ENGINES[engine].write(tokenized(), weighted, folder)
        else:
            known = pa.ipc.open_file(pa.memory_map(str(earlier.folder / _CHUNKS))).read_all()
            wanted = pa.array(list(earlier.kept), pa.string())
            kept = np.asarray(pc.is_in(known.column("document_id"), value_set=wanted).to_numpy())
            postings = PostingsBuilder()
            postings.carry_over(load_matrix(earlier.folder), np.where(kept, kept.cumsum() - 1, -1))
            writer.write_table(known.filter(pa.array(kept)).cast(_CHUNKS_SCHEMA))
            rows = int(kept.sum())
            for batch in tokenized():
                postings.add(batch)
            terms = Bm25sEngine.write_matrix(postings.matrix(), weighted, folder)
    before, carried = (earlier.folder / _DOCUMENTS, earlier.kept) if earlier else (None, ())
    write_documents(heads, settings, tokenizer, folder / _DOCUMENTS, before, carried)
    written = settings.model_dump(mode="json")
    manifest = {"format": _FORMAT, "engine": engine, "settings": written, "terms": terms}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return rows


def is_extensible(folder: Path) -> bool:
    """Return whether an index can be an `EarlierIndex`. Raise StoreError if it is unreadable."""
    return bool(_read_manifest(folder)["engine"] == "bm25s")


def open_lexical_index(folder: Path) -> LexicalIndex:
    """Open an index. Large files are mapped into memory.

    Raise StoreError with the folder if a file is missing or unreadable. `Store.local_folder`
    compares the hashes.
    """
    with _readable(folder):
        manifest = _read_manifest(folder)
        settings = Lexical.model_validate(manifest["settings"])
        chunks = pa.ipc.open_file(pa.memory_map(str(folder / _CHUNKS))).read_all()
        engine: Engine | None = None
        if manifest["terms"]:
            engine = _ENGINES[manifest["engine"]](folder, _of_weighted(settings))
        tokenizer = tokenizer_of(settings)
        documents = DocumentIndex(folder / _DOCUMENTS, settings, tokenizer, engine, chunks)
        return LexicalIndex(chunks, tokenizer, engine, documents)


def built_with(folder: Path) -> Lexical:
    """Return the settings of an index. Raise StoreError if it is unreadable."""
    return Lexical.model_validate(_read_manifest(folder)["settings"])


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"not a readable lexical index ({error!r})"
        raise StoreError(f"{folder}: {reason}; build it again") from error


def _read_manifest(folder: Path) -> dict[str, Any]:
    with _readable(folder):
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if (written := manifest["format"]) != _FORMAT:
            raise StoreError(
                f"{folder}: lexical index of format {written}, not {_FORMAT}; build it again"
            )
        return manifest


def _of_weighted(settings: Lexical) -> Lexical:
    return settings.model_copy(update={"k1": settings.k1 * settings.text_weight})
