"""Where everything that is built lives: one folder or s3:// prefix per corpus.

    <store>/<corpus>/tables/     LanceDB: documents, quarantine, chunks.*, vector_index.* …
    <store>/<corpus>/lexical/    immutable BM25 indexes, one folder per build
    <store>/<corpus>/evaluation/ queries, runs and scores as Parquet
    <store>/<corpus>/releases/   one manifest per release, and `current.json`
    <store>/calls.sqlite         the call cache, shared by all corpora (see `calls`)

State is per document: each row of a derived table says which document, content and fingerprint it
was made from, so what is stale can be read off the table itself.
"""

from rag_pipeline.store.files import Store
from rag_pipeline.store.tables import DocumentState, Table, id_filter, quoted, state_digest

__all__ = ["DocumentState", "Store", "Table", "id_filter", "quoted", "state_digest"]
