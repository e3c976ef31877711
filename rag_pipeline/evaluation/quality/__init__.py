"""The run of a configuration -> labels, scores and answers, each one file of `results`."""

from rag_pipeline.evaluation.quality.answer_presence import scores_are_current as scores_are_current
from rag_pipeline.evaluation.quality.answer_presence import scores_digest as scores_digest
from rag_pipeline.evaluation.quality.answer_presence import update_scores as update_scores
from rag_pipeline.evaluation.quality.answers import load_answers as load_answers
from rag_pipeline.evaluation.quality.answers import load_calibration as load_calibration
from rag_pipeline.evaluation.quality.answers import save_answers as save_answers
from rag_pipeline.evaluation.quality.answers import update_answers as update_answers
from rag_pipeline.evaluation.quality.context_scores import (
    update_context_scores as update_context_scores,
)
from rag_pipeline.evaluation.quality.entity_scores import (
    update_entity_scores as update_entity_scores,
)
from rag_pipeline.evaluation.quality.labels import load_labels as load_labels
from rag_pipeline.evaluation.quality.labels import update_labels as update_labels
