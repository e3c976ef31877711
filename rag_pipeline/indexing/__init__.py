"""Bring the tables of a corpus up to date: plan what is stale, build it in shards, drop orphans.

A document is *stale* in a table when its rows there are missing or made from something else, and
*orphaned* when the table before has it no longer. Whatever a crash leaves undone is stale again.
"""

from rag_pipeline.indexing.builders import read_documents
from rag_pipeline.indexing.documents import (
    code_warning,
    document_rows,
    listing_digest,
    loaded_listing,
    plan_documents,
    text_quality,
    text_warnings,
    update_documents,
    warnings_of,
)
from rag_pipeline.indexing.lexical import plan_lexical, update_lexical
from rag_pipeline.indexing.plans import MADE_OTHERWISE, Plan, Report
from rag_pipeline.indexing.stages import (
    STAGES,
    TableStage,
    build_shard,
    finish,
    open_stage,
    plan,
    update,
    update_stage,
)
from rag_pipeline.indexing.windows import window_warnings

__all__ = [
    "MADE_OTHERWISE",
    "STAGES",
    "Plan",
    "Report",
    "TableStage",
    "build_shard",
    "code_warning",
    "document_rows",
    "finish",
    "listing_digest",
    "loaded_listing",
    "open_stage",
    "plan",
    "plan_documents",
    "plan_lexical",
    "read_documents",
    "text_quality",
    "text_warnings",
    "update",
    "update_documents",
    "update_lexical",
    "update_stage",
    "warnings_of",
    "window_warnings",
]
