"""Document -> chunks: one file per method, its settings and its code."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.chunking.given import read_given_chunks as read_given_chunks
from rag_pipeline.chunking.recursive import code_spans
from rag_pipeline.chunking.sizes import SizedChunking
from rag_pipeline.config import CorpusConfig
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.config.models import TokenStarts, packaged_embedding
from rag_pipeline.datamodels import Chunk, Document, Prompt, Reply, Span, Vectors
from rag_pipeline.errors import DocumentError, ProviderError
from rag_pipeline.loading.code import symbols_of


def chunk(
    document: Document,
    settings: ChunkingSettings,
    models: Models | None = None,
    *,
    embed: Callable[[Sequence[str]], Vectors] | None = None,
    given: Mapping[str, Sequence[Span]] | None = None,
) -> list[Chunk]:
    """Cut a document into distinct chunks, sorted by offset; none is only white space.

    The chunks of built-in methods are trimmed and cover all but white space; `given` spans are
    taken as they are. Methods with a size cut source code between its definitions. Without the
    `models` of a corpus, `semantic` needs `embed` (texts to one row each) and `given` needs `given`
    (`document_id` to spans, see `read_given_chunks`); ValueError if it is missing. Raises
    DocumentError for a span outside the text.
    """
    text = document.text
    models = models or NoCorpus(embed)
    if given is not None:
        spans: Iterable[Span] = given.get(document.document_id, ())
    elif isinstance(settings, SizedChunking) and (symbols := symbols_of(document)):
        spans = code_spans(text, symbols, settings.limit(text, models))
    else:
        spans = settings.spans(document, models)
    ordered = sorted(set(spans))
    for start, end in ordered:
        if not 0 <= start < end <= len(text):
            raise DocumentError(
                document.document_id,
                f"{settings.method} chunk {start}-{end} is not a span of a text of {len(text)} "
                f"characters; 0 <= start < end <= length must hold",
            )
    found = ((start, end, text[start:end]) for start, end in ordered)
    return [Chunk(document.document_id, *span) for span in found if not span[2].isspace()]


@dataclass(frozen=True, slots=True)
class NoCorpus:
    """The models of a method without a corpus file."""

    embed: Callable[[Sequence[str]], Vectors] | None = None

    @property
    def config(self) -> CorpusConfig:
        """Raise ValueError."""
        raise ValueError(
            "given chunking: pass given=, a mapping from document_id to (start, end) pairs"
        )

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        """Embed texts with `embed`; raise ValueError if it is missing."""
        if self.embed is None:
            raise ValueError("pass embed=, a function from texts to vectors")
        return self.embed(texts)

    def token_starts(self, text: str, embedding: str | None) -> TokenStarts:
        """Return the offsets of the packaged model's tokens."""
        return packaged_embedding().token_starts(text)

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        """Raise ValueError."""
        raise ValueError(f"the chat model {chat!r} is one of a corpus: pass models=")
