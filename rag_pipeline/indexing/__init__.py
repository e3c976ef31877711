"""Bring the tables of a corpus up to date.

Stale documents are built in shards, and the rows of orphaned documents are dropped. A document is
*stale* in a table if its rows are missing or were made from other input, settings or code. A
document is *orphaned* if the upstream table no longer has it. After a crash, unfinished documents
are still stale.
"""

from rag_pipeline.indexing.documents import list_documents as list_documents
from rag_pipeline.indexing.documents import listing_digest as listing_digest
from rag_pipeline.indexing.documents import loaded_listing as loaded_listing
from rag_pipeline.indexing.documents import plan_documents as plan_documents
from rag_pipeline.indexing.documents import read_again as read_again
from rag_pipeline.indexing.lexical import plan_lexical as plan_lexical
from rag_pipeline.indexing.lexical import update_lexical as update_lexical
from rag_pipeline.indexing.loads import Loaded as Loaded
from rag_pipeline.indexing.loads import LoadFound as LoadFound
from rag_pipeline.indexing.loads import document_rows as document_rows
from rag_pipeline.indexing.loads import finish_load as finish_load
from rag_pipeline.indexing.loads import load_shard as load_shard
from rag_pipeline.indexing.loads import load_shards as load_shards
from rag_pipeline.indexing.loads import plan_load as plan_load
from rag_pipeline.indexing.loads import read_documents as read_documents
from rag_pipeline.indexing.loads import update_documents as update_documents
from rag_pipeline.indexing.plans import MADE_OTHERWISE as MADE_OTHERWISE
from rag_pipeline.indexing.plans import Plan as Plan
from rag_pipeline.indexing.plans import Report as Report
from rag_pipeline.indexing.tables import TABLES as TABLES
from rag_pipeline.indexing.tables import TablePartition as TablePartition
from rag_pipeline.indexing.tables import build_shard as build_shard
from rag_pipeline.indexing.tables import finish as finish
from rag_pipeline.indexing.tables import open_partition as open_partition
from rag_pipeline.indexing.tables import plan as plan
from rag_pipeline.indexing.tables import update as update
from rag_pipeline.indexing.tables import update_partition as update_partition
from rag_pipeline.indexing.warnings import code_warning as code_warning
from rag_pipeline.indexing.warnings import refused_documents as refused_documents
from rag_pipeline.indexing.warnings import text_quality as text_quality
from rag_pipeline.indexing.warnings import text_warnings as text_warnings
from rag_pipeline.indexing.warnings import warnings_of as warnings_of
from rag_pipeline.indexing.warnings import window_warnings as window_warnings
