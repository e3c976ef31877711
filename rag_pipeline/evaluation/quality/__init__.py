"""The run of a configuration -> relevance labels, answers, entity scores and context scores.

Each is one file of `evaluation.results`.
"""

from rag_pipeline.evaluation.quality.answers import (
    load_answers,
    load_calibration,
    save_answers,
    update_answers,
)
from rag_pipeline.evaluation.quality.context_scores import update_context_scores
from rag_pipeline.evaluation.quality.entity_scores import update_entity_scores
from rag_pipeline.evaluation.quality.labels import load_labels, update_labels

__all__ = [
    "load_answers",
    "load_calibration",
    "load_labels",
    "save_answers",
    "update_answers",
    "update_context_scores",
    "update_entity_scores",
    "update_labels",
]
