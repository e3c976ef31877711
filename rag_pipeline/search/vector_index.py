"""Make LanceDB rows with unit vectors from contextualized chunks, and search these rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import InputError, TextTooLongError
from rag_pipeline.loading.languages import language_of
from rag_pipeline.models.embedding import Embedded, read_signs
from rag_pipeline.search.filters import COLUMNS
from rag_pipeline.store import Table
from rag_pipeline.store.lance import clear_errors, index_names, table_name
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA

FLAT_ROWS = 50_000
"""Minimum number of rows of a table with an IVF index. A smaller table is scanned exactly."""
RowIds = npt.NDArray[np.uint64]
"""LanceDB's row ids. They are valid for one version of a table."""
_REFINE = 4
_REFINED_ROWS = 400
"""Minimum number of rows that are compared exactly after a quantised search."""
_NPROBES = 64
"""Minimum number of partitions that a search reads."""
_PROBED = 6
"""A search reads at least 1 / `_PROBED` of the partitions."""
_OUTGROWN = 1.5
"""The index is trained again if its number of partitions is wrong by more than this factor."""
_SKEWED = 3.0
"""The index is trained again if its largest partition's share grows by more than this factor."""
_FILTERED = 4096
"""Number of rows that are copied and filtered at once."""
_LARGEST = "rag_pipeline.largest_partition"
_TRAINING = {"sample_rate": 64, "max_iterations": 20}
"""Settings of k-means. Fewer samples than Lance's default take less time."""


def indexed_text(context: str | None, text: str) -> str:
    """Return the text to embed: the chunk's text, then its context."""
    return f"{text}\n\n{context}" if context else text


def indexed_texts(batch: pa.RecordBatch) -> list[str]:
    """Return the texts to embed for a batch of contextualized chunks."""
    contexts, texts = batch.column("context").to_pylist(), batch.column("text").to_pylist()
    return list(map(indexed_text, contexts, texts))


def index_chunks(
    batches: Iterable[pa.RecordBatch],
    embed: Callable[[Sequence[str]], Embedded],
    schema: pa.Schema,
    fingerprint: str,
) -> Iterator[pa.RecordBatch]:
    """Embed contextualized chunks, and yield rows of a vector index (see `vector_schema`).

    Raise TextTooLongError with the chunk's id if a text is too long for the model.
    """
    dimension = schema.field("vector").type.list_size
    for batch in batches:
        indexed = indexed_texts(batch)
        try:
            made = embed(indexed)
        except TextTooLongError as error:
            chunk = batch.column("chunk_id")[indexed.index(error.text)]
            raise TextTooLongError(f"chunk {chunk}: {error}", error.text) from None
        columns = {name: batch.column(name) for name in CONTEXTUALIZED_CHUNKS_SCHEMA.names}
        columns["fingerprint"] = pa.array([fingerprint] * batch.num_rows)
        columns["vector"] = pa.FixedSizeListArray.from_arrays(
            pa.array(made.vectors.ravel()), dimension
        )
        if "token_vectors" in schema.names:
            tokens = [read_signs(packed, dimension) for packed in made.tokens]
            distinct = [np.unique(ids).tobytes() for ids, _ in tokens]
            columns["token_ids"] = pa.array(distinct, pa.binary())
            columns["token_vectors"] = pa.array([bits for _, bits in tokens], pa.binary())
        yield pa.RecordBatch.from_arrays([columns[n] for n in schema.names], schema=schema)


def maintain(table: Table) -> str:
    """Compact a table, and train its index if needed. Return `ivf`, or `flat` without an index."""
    table.compact()  # also adds new rows to an existing index
    lance = table.dataset()
    rows = lance.count_rows()
    sizes = _partition_sizes(lance)
    if not (_is_unfit(lance, rows, sizes) if sizes else rows >= FLAT_ROWS):
        return "ivf" if sizes else "flat"
    # RaBitQ stores one bit per dimension and trains no codebook. `refine` reads exact vectors.
    quantised = lance.schema.field("vector").type.list_size % 8 == 0
    from lancedb.index import IvfFlat, IvfRq

    kind = IvfRq if quantised else IvfFlat
    config = kind(distance_type="cosine", num_partitions=_partitions(rows), **_TRAINING)
    table.open().create_index("vector", config=config)
    trained = table.dataset()
    trained.update_schema_metadata({_LARGEST: repr(max(_partition_sizes(trained)) / rows)})
    return "ivf"


def _partition_sizes(lance: Any) -> list[int]:
    """Return the number of rows of each partition of the vector index, or [] without an index."""
    name = index_names(lance).get("vector")
    if name is None:
        return []
    # All parts of the index have the same partitions, and the first part has most rows.
    first = lance.stats.index_stats(name)["indices"][0]
    return [int(partition["size"]) for partition in first["partitions"]]


def _is_unfit(lance: Any, rows: int, sizes: Sequence[int]) -> bool:
    wanted = _partitions(rows)
    if not wanted / _OUTGROWN <= len(sizes) <= wanted * _OUTGROWN:
        return True
    largest = (lance.schema.metadata or {}).get(_LARGEST.encode())
    # If a run ended before it wrote the value, the index counts as fit.
    return largest is not None and max(sizes) > _SKEWED * float(largest) * rows


def _partitions(rows: int) -> int:
    return max(16, int(rows**0.5))


def index_probes(lance: Any) -> int:
    """Return the number of partitions that a search reads, or 0 without an index."""
    partitions = len(_partition_sizes(lance))
    return partitions and min(partitions, max(_NPROBES, partitions // _PROBED))


def search(
    lance: Any,
    vector: Vectors,
    k: int,
    where: str | None = None,
    columns: Sequence[str] = ("chunk_id",),
    probes: int | None = None,
    refine: bool = True,
) -> pa.Table:
    """Return the k nearest rows by cosine distance, with `_distance`, `_rowid` and `columns`.

    `probes` is the known value of `index_probes`. If `refine` is False, the search compares only
    quantised vectors. Raise InputError if `where` is invalid.
    """
    nearest = {"column": "vector", "q": np.asarray(vector, np.float32), "k": k, "metric": "cosine"}
    probes = index_probes(lance) if probes is None else probes
    if probes:
        nearest["nprobes"] = probes
        if refine:
            nearest["refine_factor"] = max(_REFINE, -(-_REFINED_ROWS // k))
    return _filtered(lance, where, [*columns, "_distance"], nearest=nearest, prefilter=True)


def matching(lance: Any, where: str) -> RowIds:
    """Return the row ids that match a filter."""
    row_ids: RowIds = _filtered(lance, where, ["start"]).column("_rowid").to_numpy()
    return row_ids


def matching_among(lance: Any, row_ids: RowIds, where: str) -> RowIds:
    """Return the given row ids whose rows match a filter. Read no other rows."""
    from lance import write_dataset

    found = [np.empty(0, np.uint64)]
    for first in range(0, max(len(row_ids), 1), _FILTERED):
        some = row_ids[first : first + _FILTERED]
        rows = take(lance, some, COLUMNS)
        copied = write_dataset(rows, "memory://rows")
        found.append(some[matching(copied, where).astype(np.int64)])
    return np.concatenate(found)


def take(lance: Any, row_ids: RowIds, columns: Sequence[str]) -> pa.Table:
    """Return these columns of the rows with the given ids, in the order of the ids."""
    with reading(lance):
        return lance._take_rows(row_ids.tolist(), list(columns))


def rows_of(lance: Any, row_ids: RowIds, most: int) -> pa.Table | None:
    """Return the rows with the given ids, in that order, with the columns that a search reads.

    Return None if the rows probably exceed `most` bytes. The first thousand rows give the estimate.
    """
    tokens = [name for name in ("token_vectors",) if name in lance.schema.names]
    some = row_ids[:1000]
    sample = take(lance, some, [*COLUMNS, *tokens])
    if sample.nbytes * len(row_ids) > most * max(len(some), 1):
        return None
    return take(lance, row_ids, sample.schema.names).combine_chunks()


def vectors_of(table: pa.Table) -> Vectors:
    """Return the column `vector` as an array, shape (rows, dimension)."""
    column = table.column("vector").combine_chunks()
    flat: Vectors = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), column.type.list_size)


def reading(lance: Any) -> AbstractContextManager[None]:
    """Turn Lance's errors inside the block into a StoreError with the table and the repair."""
    return clear_errors(f"{table_name(lance)}, version {lance.version}", "search")


def _filtered(lance: Any, where: str | None, columns: list[str], **options: Any) -> pa.Table:
    """Return columns and row ids of the rows that match a filter, or of all rows."""
    options = {"columns": columns, "filter": where or None, "with_row_id": True, **options}
    if not where:
        with reading(lance):
            return lance.to_table(**options)
    try:
        return lance.to_table(**options)
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split()).split(", /")[0][:200]
        raise InputError(f"--where {where[:200]!r}: {reason}") from None


# --- languages ---

_SAMPLED = 400
"""Maximum number of chunks whose language is detected."""
_LEAST_CHUNKS = 5
_LEAST_SHARE = 0.02
"""A language counts if at least this number and this share of the sampled chunks use it."""


def language_axes(vectors: Vectors, texts: Sequence[str]) -> Vectors | None:
    """Return orthonormal axes along which the mean vectors of the texts' languages differ.

    The shape is (languages - 1, dimension). Return None for fewer than two languages.

    Multilingual models place texts of one language near each other. A German question is nearer to
    unrelated German chunks than to an English chunk with the answer. A vector without these axes is
    equally near to the mean of each language. Source: Yang et al., A Simple and Effective Method To
    Eliminate the Self Language Bias in Multilingual Representations, EMNLP 2021.
    """
    codes = np.array([language_of(text) for text in texts])
    least = max(_LEAST_CHUNKS, _LEAST_SHARE * len(texts))
    counted = [code for code in sorted({*codes} - {""}) if (codes == code).sum() >= least]
    if len(counted) < 2:
        return None
    means = np.array([vectors[codes == code].mean(axis=0) for code in counted])
    axes: Vectors = np.linalg.qr((means[1:] - means[0]).T)[0].T
    return axes


def sampled(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return at most 400 of the positions, evenly spaced."""
    count = min(len(positions), _SAMPLED)
    return positions[np.linspace(0, len(positions) - 1, count, dtype=np.int64)]


def without_axes(vector: Vectors, axes: Vectors | None) -> Vectors:
    """Return a vector without its components along the axes."""
    if axes is None:
        return vector
    kept: Vectors = (vector - (vector @ axes.T) @ axes).astype(np.float32)
    return kept
