"""Hold answers to facts: extract entities, match them with the ground truth, score."""

from rag_pipeline.evaluation.entities.llm import extract_with_llm as extract_with_llm
from rag_pipeline.evaluation.entities.matching import find as find
from rag_pipeline.evaluation.entities.rules import Entity as Entity
from rag_pipeline.evaluation.entities.rules import extract as extract
from rag_pipeline.evaluation.entities.scores import ENTITY_METRICS as ENTITY_METRICS
from rag_pipeline.evaluation.entities.scores import Counts as Counts
from rag_pipeline.evaluation.entities.scores import EntityScore as EntityScore
from rag_pipeline.evaluation.entities.scores import EntitySummary as EntitySummary
from rag_pipeline.evaluation.entities.scores import score_entities as score_entities
from rag_pipeline.evaluation.entities.scores import summarize_entities as summarize_entities
