"""Hold answers to facts: extract entities, match them with the ground truth, score."""

from rag_pipeline.evaluation.entities.llm import extract_with_llm
from rag_pipeline.evaluation.entities.matching import find
from rag_pipeline.evaluation.entities.rules import Entity, extract
from rag_pipeline.evaluation.entities.scores import (
    ENTITY_METRICS,
    Counts,
    EntityScore,
    EntitySummary,
    score_entities,
    summarize_entities,
)

__all__ = [
    "ENTITY_METRICS",
    "Counts",
    "Entity",
    "EntityScore",
    "EntitySummary",
    "extract",
    "extract_with_llm",
    "find",
    "score_entities",
    "summarize_entities",
]
