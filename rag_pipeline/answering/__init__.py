"""Answer queries from their ranked chunks, with citations.

Sentences of the chunks are quoted, or a chat model writes the answer.

Evaluation and served releases use the same code.
"""

from rag_pipeline.answering.confidence import DEFAULT as DEFAULT
from rag_pipeline.answering.confidence import Calibration as Calibration
from rag_pipeline.answering.confidence import passage_chances as passage_chances
from rag_pipeline.answering.extractive import extract_answers as extract_answers
from rag_pipeline.answering.forms import NEUTRAL_QUERIES as NEUTRAL_QUERIES
from rag_pipeline.answering.forms import contexts_of as contexts_of
from rag_pipeline.answering.forms import distinct as distinct
from rag_pipeline.answering.forms import form_answers as form_answers
from rag_pipeline.answering.forms import most_contexts_of as most_contexts_of
from rag_pipeline.answering.intent import detect as detect
from rag_pipeline.answering.reading import Reader as Reader
from rag_pipeline.answering.reading import SentenceEmbed as SentenceEmbed
from rag_pipeline.answering.reading import sentence_vectors as sentence_vectors
from rag_pipeline.answering.written import or_quotes as or_quotes
