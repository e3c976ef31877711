"""A query and its ranked chunks -> an answer with citations, by extraction or by a chat model."""

from rag_pipeline.answering.extractive import NOTHING_ANSWERS, SentenceEmbed, extract_answers
from rag_pipeline.answering.llm import Ask, answer_prompt, read_answer, write_answers
from rag_pipeline.answering.support import supports

__all__ = [
    "NOTHING_ANSWERS",
    "Ask",
    "SentenceEmbed",
    "answer_prompt",
    "extract_answers",
    "read_answer",
    "supports",
    "write_answers",
]
