"""Store everything that is built, in one folder or s3:// prefix per corpus.

    <store>/<corpus>/tables/     LanceDB: documents, quarantine, chunks.*, vector_index.* …
    <store>/<corpus>/lexical/    immutable BM25 indexes, one folder per build
    <store>/<corpus>/evaluation/ queries, runs and scores as Parquet
    <store>/<corpus>/releases/   one manifest per release, and `current.json`
    <store>/<corpus>/outcomes/   the last outcome of each step; checks/ has the results of checks
    <store>/<corpus>/hashes/     sizes and hashes of the tables' files, to find damage
    <store>/calls.sqlite         answers and charges, shared by all corpora (see `calls`)
    <store>/.calls/answers/      on a bucket: large answers (see `calls.cache`)

Each row of a derived table holds the document_id, content hash and fingerprint that the row was
made from. The table itself therefore shows which documents are stale.
"""

from rag_pipeline.store.lance import id_filter as id_filter
from rag_pipeline.store.lance import quoted as quoted
from rag_pipeline.store.states import DocumentState as DocumentState
from rag_pipeline.store.states import TableState as TableState
from rag_pipeline.store.states import state_digest as state_digest
from rag_pipeline.store.store import SHARED_CALLS as SHARED_CALLS
from rag_pipeline.store.store import Store as Store
from rag_pipeline.store.tables import Table as Table
