"""The run of a configuration -> relevance labels, answers, entity scores and context scores.

Each is one Parquet file with a note. The note's `made_from` hashes the settings and everything that
was read; its `digest` what came out too, as a judge's missing items may be answered by a later run.
"""

from rag_pipeline.evaluation.quality.answers import load_answers, save_answers, update_answers
from rag_pipeline.evaluation.quality.context_scores import update_context_scores
from rag_pipeline.evaluation.quality.entity_scores import update_entity_scores
from rag_pipeline.evaluation.quality.labels import load_labels, update_labels
from rag_pipeline.evaluation.quality.notes import (
    is_current,
    is_incomplete,
    made_from,
    quality_file,
)

__all__ = [
    "is_current",
    "is_incomplete",
    "load_answers",
    "load_labels",
    "made_from",
    "quality_file",
    "save_answers",
    "update_answers",
    "update_context_scores",
    "update_entity_scores",
    "update_labels",
]
