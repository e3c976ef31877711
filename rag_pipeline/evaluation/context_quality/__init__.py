"""Did the retrieved contexts help: how relevant they are, whether used, what is missing."""

from rag_pipeline.evaluation.context_quality.llm import judge_with_llm as judge_with_llm
from rag_pipeline.evaluation.context_quality.rules import judge_by_rules as judge_by_rules
from rag_pipeline.evaluation.context_quality.rules import key_phrases as key_phrases
from rag_pipeline.evaluation.context_quality.rules import was_used as was_used
from rag_pipeline.evaluation.context_quality.scores import CONTEXT_METRICS as CONTEXT_METRICS
from rag_pipeline.evaluation.context_quality.scores import ContextJudgement as ContextJudgement
from rag_pipeline.evaluation.context_quality.scores import Judged as Judged
from rag_pipeline.evaluation.context_quality.scores import Level as Level
from rag_pipeline.evaluation.context_quality.scores import context_metrics as context_metrics
from rag_pipeline.evaluation.context_quality.scores import context_precision as context_precision
from rag_pipeline.evaluation.context_quality.scores import context_relevance as context_relevance
from rag_pipeline.evaluation.context_quality.scores import ranking_penalty as ranking_penalty
