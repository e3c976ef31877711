"""Cut documents into chunks, with one module per method."""

from collections.abc import Iterable, Sequence

from rag_pipeline.chunking.recursive import code_spans
from rag_pipeline.chunking.sizes import SizedChunking
from rag_pipeline.config import CorpusConfig
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.config.models import TokenStarts, packaged_embedding
from rag_pipeline.datamodels import Chunk, Document, Prompt, Reply, Span, Vectors
from rag_pipeline.errors import DocumentError, ProviderError
from rag_pipeline.loading.code import symbols_of


def chunk(
    document: Document, settings: ChunkingSettings, models: Models | None = None
) -> list[Chunk]:
    """Cut a document into distinct chunks, sorted by start and end. Omit blank chunks.

    Methods with a maximum size cut source code between its definitions. The packaged methods trim
    chunks, and their chunks cover all text except white space. Only `given` leaves spans unchanged.
    Raise ValueError if `models` is None and the method needs more than the packaged tokenizer.
    Raise DocumentError if a span is empty or outside the text.
    """
    text = document.text
    models = models or NoCorpus()
    spans: Iterable[Span]
    if isinstance(settings, SizedChunking) and (symbols := symbols_of(document)):
        spans = code_spans(text, symbols, settings.limit(text, models))
    else:
        spans = settings.spans(document, models)
    ordered = sorted(set(spans))
    for start, end in ordered:
        if not 0 <= start < end <= len(text):
            raise DocumentError(
                document.document_id,
                f"{settings.method} chunk {start}-{end} is outside the text of {len(text)} "
                f"characters; 0 <= start < end <= length must hold",
            )
    found = ((start, end, text[start:end]) for start, end in ordered)
    return [Chunk(document.document_id, *span) for span in found if not span[2].isspace()]


class NoCorpus:
    """The models of methods without a corpus file: only the packaged tokenizer."""

    @property
    def config(self) -> CorpusConfig:
        """Raise ValueError, because there is no corpus file."""
        raise ValueError("this method reads a corpus file: pass models=")

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        """Raise ValueError, because there is no embedding."""
        raise ValueError("this method embeds texts: pass models=")

    def token_starts(self, text: str, embedding: str | None) -> TokenStarts:
        """Return the offsets of the packaged model's tokens."""
        return packaged_embedding().token_starts(text)

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        """Raise ValueError, because there is no chat model."""
        raise ValueError(f"this method asks the chat model {chat!r}: pass models=")
