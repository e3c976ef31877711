"""A query and its ranked chunks -> an answer with citations, by extraction or by a chat model.

The one way to an answer, for what the leaderboard measures and for what a release serves.
"""

from rag_pipeline.answering.confidence import DEFAULT, Calibration, passage_chances
from rag_pipeline.answering.extractive import NOTHING_ANSWERS, extract_answers
from rag_pipeline.answering.forms import (
    NEUTRAL_QUERIES,
    NO_ANSWER,
    distinct,
    form_answers,
    passages_wanted,
)
from rag_pipeline.answering.intent import Intent, detect
from rag_pipeline.answering.llm import Ask, ChatAnswers, answer_prompt, read_answer, write_answers
from rag_pipeline.answering.sentences import Reader, SentenceEmbed, sentence_vectors
from rag_pipeline.answering.support import supports
from rag_pipeline.datamodels import Formed, Row, ToAnswer

__all__ = [
    "DEFAULT",
    "NEUTRAL_QUERIES",
    "NOTHING_ANSWERS",
    "NO_ANSWER",
    "Ask",
    "Calibration",
    "ChatAnswers",
    "Formed",
    "Intent",
    "Reader",
    "Row",
    "SentenceEmbed",
    "ToAnswer",
    "answer_prompt",
    "detect",
    "distinct",
    "extract_answers",
    "form_answers",
    "passage_chances",
    "passages_wanted",
    "read_answer",
    "sentence_vectors",
    "supports",
    "write_answers",
]
