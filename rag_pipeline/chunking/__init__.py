"""Document -> chunks: one file per method, one function that dispatches to them."""

from collections.abc import Callable, Mapping, Sequence

from rag_pipeline.chunking.fixed import fixed_spans
from rag_pipeline.chunking.given import given_spans, read_given_chunks
from rag_pipeline.chunking.markdown import markdown_spans
from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.semantic import semantic_spans
from rag_pipeline.chunking.spans import Span
from rag_pipeline.chunking.windows import window_spans
from rag_pipeline.config import (
    Chunking,
    FixedChunking,
    GivenChunking,
    MarkdownChunking,
    RecursiveChunking,
    SemanticChunking,
    SentencesChunking,
)
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.models.providers import Vectors

__all__ = ["chunk", "read_given_chunks"]


def chunk(
    document: Document,
    settings: Chunking,
    *,
    embed: Callable[[Sequence[str]], Vectors] | None = None,
    given: Mapping[str, Sequence[Span]] | None = None,
) -> list[Chunk]:
    """Cut a document into chunks, in the order of their offsets, none twice or only white space.

    Together they cover every character but white space, and none starts or ends with white
    space; only `given` spans are taken as they are. `semantic` needs `embed` (texts to one row
    each), `given` needs `given` (`document_id` to spans, see `read_given_chunks`); ValueError if
    it is missing, DocumentError for a given span that is not in the text.
    """
    text = document.text
    match settings:
        case FixedChunking():
            spans = fixed_spans(text, settings.tokens, settings.overlap)
        case RecursiveChunking():
            spans = recursive_spans(text, settings.max_characters)
        case MarkdownChunking():
            spans = markdown_spans(text, settings.max_characters)
        case SemanticChunking():
            if embed is None:
                raise ValueError(
                    "semantic chunking compares sentences: pass embed=, a function "
                    "from texts to vectors"
                )
            spans = semantic_spans(text, settings, embed)
        case SentencesChunking():
            spans = window_spans(text, settings.max_characters, settings.overlap)
        case GivenChunking():
            if given is None:
                raise ValueError(
                    "given chunking takes its spans from you: pass given=, a mapping "
                    "from document_id to (start, end) pairs"
                )
            spans = given_spans(document, given.get(document.document_id, ()))
    return [Chunk(document.document_id, start, end, text[start:end]) for start, end in spans]
