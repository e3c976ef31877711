"""Answers from one document, or from several, as the assistant makes them without a model."""

from rag_pipeline.answering.forms import form_answers
from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.reading import sentence_vectors
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Document, SearchResult
from rag_pipeline_tests.testing.chunking import scored


def answered(question: str, *texts: str) -> Answer:
    """Answer from documents `0.md`, `1.md` …, each one passage, best first."""
    documents = {f"{n}.md": Document(f"{n}.md", "", text) for n, text in enumerate(texts)}
    chunks = [scored(i, d.text, 1 / (n + 1)) for n, (i, d) in enumerate(documents.items())]
    found = SearchResult(query=question, chunks=chunks, kind=detect(question).kind)
    settings = ExtractiveAnswers(confidence=0)
    (answer,) = form_answers(
        [found],
        settings,
        sentence_vectors,
        document_of=lambda chunk: documents.get(chunk.document_id),
    )
    return answer
