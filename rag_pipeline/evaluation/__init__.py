"""Measure ranked chunks against gold spans, per query, and summarize over queries."""

from rag_pipeline.evaluation.answer_presence import SpanLike as SpanLike
from rag_pipeline.evaluation.answer_presence import answers as answers
from rag_pipeline.evaluation.answer_presence import relevance_labels as relevance_labels
from rag_pipeline.evaluation.llm_relevance import Agreement as Agreement
from rag_pipeline.evaluation.llm_relevance import Evaluator as Evaluator
from rag_pipeline.evaluation.llm_relevance import agreement as agreement
from rag_pipeline.evaluation.relevance import relevant_chunks as relevant_chunks
from rag_pipeline.evaluation.retrieval_metrics import METRICS as METRICS
from rag_pipeline.evaluation.retrieval_metrics import evaluate_query as evaluate_query
from rag_pipeline.evaluation.summary import Summary as Summary
from rag_pipeline.evaluation.summary import summarize as summarize
from rag_pipeline.evaluation.summary import summarize_all as summarize_all
