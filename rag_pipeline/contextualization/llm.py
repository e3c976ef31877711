"""Documents + chunks -> contexts that a chat model writes, having read the whole document.

Anthropic, "Introducing Contextual Retrieval" (September 2024). The document comes first in each
prompt and the chunk last, so that the provider's prompt cache serves the document to all chunks
but the first. A document that is longer than the model's window is shown as a summary of it, made
once by the same model, and the part around the chunk; chunks near each other are shown the same
part, so that this too is served from the cache.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from rag_pipeline.calls.costs import most_tokens
from rag_pipeline.config import ChatSettings, ContextualizerSettings, CorpusFile, Models
from rag_pipeline.config.contextualizers import Chunked, Outcome
from rag_pipeline.config.settings import ChatName
from rag_pipeline.contextualization.structural import (
    StructuralContext,
    about,
    cut_line,
    structural_contexts,
)
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Ask, Prompt, Reply

_SUMMARY_CHARACTERS = 2_000
_NAME = "{document_name}"
_FRAME_TOKENS = 64
"""What a server's chat template puts around a message."""
_SUMMARIZE = (
    "\n\nSummarize the text above in one paragraph of at most 150 words: what kind of document it "
    "is, between whom or about what, of when, and what its parts deal with. Answer with the "
    "summary alone."
)


CONTEXT_TEMPLATE = """\
<document>
{document}
</document>

A passage of this document will be indexed for search by itself, cut off from what stands around \
it. Write one or two sentences to be put before it: which document it is from, what it is about \
there, and the names, dates or sections that its words refer back to. Answer with these sentences \
alone.

<passage>
{chunk}
</passage>
"""


class LLMContext(ContextualizerSettings):
    """A context that the chat model `chat` writes, having read the whole document.

    `template` holds `{document}`, and after it `{chunk}`; where `{document_name}` stands in it, the
    model reads title, file name, parties and date. With `structural`, the free structural context
    stands before what the model says.
    """

    method: Literal["llm"]
    chat: ChatName
    template: str = CONTEXT_TEMPLATE
    max_characters: int = Field(default=600, ge=16)
    structural: bool = False

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return what stands before the document, between document and chunk, and after it."""
        before, _, rest = self.template.partition("{document}")
        return before, *rest.split("{chunk}")  # type: ignore[return-value]

    def parts_about(self, document: Document) -> tuple[str, str, str]:
        """Return the parts with the document's name in them."""
        if _NAME not in self.template:
            return self.parts
        name = "; ".join(part for part in about(document) if part)
        before, between, after = (part.replace(_NAME, name) for part in self.parts)
        return before, between, after

    @model_validator(mode="after")
    def _template_has_both(self) -> "LLMContext":
        places = [self.template.count("{document}"), self.template.count("{chunk}")]
        if places != [1, 1] or "{chunk}" not in self.template.partition("{document}")[2]:
            raise ValueError(
                "template must hold {document} once and after it {chunk} once: a prompt that "
                "begins with the document is served from the provider's cache"
            )
        return self

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model, and with `structural` what makes the other part."""
        given = [StructuralContext(method="structural")] if self.structural else []
        return [*super().made_from(config), *given]

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return what the model writes about each chunk; raise ProviderError where it fails."""
        ((_, made),) = self.contextualize([(document, chunks)], models)
        if isinstance(made, ProviderError):
            raise made
        return [one.context for one in made]

    def contextualize(self, documents: Iterable[Chunked], models: Models) -> Iterator[Outcome]:
        """Ask about all documents at once, so that many prompts are in flight."""
        chunked = list(documents)
        chat = models.config.section("chats")[self.chat]
        made = contextualize_with_model(chunked, self, chat, partial(models.ask, chat=self.chat))
        yield from zip((document for document, _ in chunked), made, strict=True)

    def is_too_long(self, document: Document, chunks: Sequence[Chunk], c: CorpusFile) -> bool:
        """Return whether document and chunk may not fit the model's window together."""
        return is_too_long(document, chunks, self, c.section("chats")[self.chat])


def contextualize_with_model(
    documents: Sequence[tuple[Document, Sequence[Chunk]]],
    settings: LLMContext,
    chat: ChatSettings,
    ask: Ask,
) -> list[list[ContextualizedChunk] | ProviderError]:
    """Return each document's chunks with the contexts that the model writes.

    A document of which one chunk fails comes back as that ProviderError; the contexts of its
    other chunks are in the call cache by then. Raises what `ask` raises when no call can work.
    """
    summaries = _summaries(documents, settings, chat, ask)
    prompts: list[Prompt] = []
    places: list[slice | ProviderError] = []
    for (document, chunks), summary in zip(documents, summaries, strict=True):
        if isinstance(summary, ProviderError):
            places.append(ProviderError(f"{document.document_id}: {summary}"))
            continue
        made = context_prompts(document, chunks, settings, chat, summary)
        places.append(slice(len(prompts), len(prompts) + len(made)))
        prompts += made
    replies = ask(prompts)
    return [
        place if isinstance(place, ProviderError) else _joined(*own, replies[place], settings)
        for own, place in zip(documents, places, strict=True)
    ]


def context_prompts(
    document: Document,
    chunks: Sequence[Chunk],
    settings: LLMContext,
    chat: ChatSettings,
    summary: str = "",
) -> list[Prompt]:
    """Return the prompt of each chunk; with a `summary`, of a document that is too long."""
    before, between, after = settings.parts_about(document)
    if not summary:
        shown = [document.text] * len(chunks)
    else:
        room = _room(document, chunks, settings, chat) - most_tokens(summary)
        windows = _Windows.over(document.text, room)
        shown = [_excerpt(document, summary, windows.around(chunk)) for chunk in chunks]
    # One string per document or window: thousands of prompts share it.
    prefixes = {text: before + text + between for text in dict.fromkeys(shown)}
    return [
        Prompt(chunk.text + after, prefix=prefixes[text])
        for chunk, text in zip(chunks, shown, strict=True)
    ]


def is_too_long(
    document: Document, chunks: Sequence[Chunk], settings: LLMContext, chat: ChatSettings
) -> bool:
    """Return whether document and chunk may not fit the model's window together."""
    return most_tokens(document.text) > _room(document, chunks, settings, chat)


def _room(
    document: Document, chunks: Sequence[Chunk], settings: LLMContext, chat: ChatSettings
) -> int:
    frame = most_tokens("".join(settings.parts_about(document))) + _FRAME_TOKENS
    return chat.context_window - chat.max_output_tokens - frame - _longest(chunks)


def _longest(chunks: Sequence[Chunk]) -> int:
    return max((most_tokens(chunk.text) for chunk in chunks), default=0)


# --- documents longer than the window ---


@dataclass(frozen=True, slots=True)
class _Windows:
    """Parts of a text, each overlapping the next one by half."""

    text: str
    width: int

    @classmethod
    def over(cls, text: str, tokens: int) -> "_Windows":
        """Return windows of at most as many tokens."""
        share = tokens / most_tokens(text)
        return cls(text, max(2, int(len(text) * share * 0.9)))

    def around(self, chunk: Chunk) -> str:
        """Return the window whose middle is nearest to the chunk's."""
        step = self.width // 2
        last = max(0, -(-(len(self.text) - self.width) // step))
        number = round(((chunk.start + chunk.end) / 2 - self.width / 2) / step)
        start = step * min(max(number, 0), last)
        return self.text[start : start + self.width]


def _excerpt(document: Document, summary: str, window: str) -> str:
    title = f"{document.title}\n\n" if document.title else ""
    return f"{title}Summary of the whole document: {summary}\n\nA part of it:\n{window}"


def _summaries(
    documents: Sequence[tuple[Document, Sequence[Chunk]]],
    settings: LLMContext,
    chat: ChatSettings,
    ask: Ask,
) -> list[str | ProviderError]:
    """Return the summary of each document that is too long, "" of the others.

    A document is summarized in pieces that fit the window, then what was said of them, until one
    piece is left.
    """
    summaries: list[str | ProviderError] = [""] * len(documents)
    pending: dict[int, str] = {}
    rooms: dict[int, int] = {}
    for number, (document, chunks) in enumerate(documents):
        room = rooms[number] = _room(document, chunks, settings, chat)
        least = 2 * _longest(chunks) + most_tokens(" " * _SUMMARY_CHARACTERS)
        if most_tokens(document.text) <= room:
            continue
        if room >= least:
            pending[number] = document.text
            continue
        summaries[number] = ProviderError(
            f"its {most_tokens(document.text)} tokens don't fit into chats.{settings.chat}."
            f"context_window {chat.context_window}, which has room for {max(0, room)} beside "
            f"max_output_tokens {chat.max_output_tokens}, prompt and chunk; at least {least} are "
            f"needed: raise context_window, or lower max_output_tokens or the chunks' size"
        )
    while pending:
        pieces = {n: list(_pieces(text, rooms[n])) for n, text in pending.items()}
        replies = iter(ask([Prompt(_SUMMARIZE, prefix=p) for own in pieces.values() for p in own]))
        for number, own in pieces.items():
            del pending[number]
            # Shorter than what it is of, whatever the model says, or there would be no end.
            limit = min(_SUMMARY_CHARACTERS, max(1, len(own[0]) // 3))
            said: list[str] = []
            for reply in [next(replies) for _ in own]:
                if isinstance(reply, ProviderError):
                    summaries[number] = reply
                else:
                    said.append(cut_line(reply.text, limit))
            if len(said) < len(own):
                continue
            if len(said) == 1:
                summaries[number] = said[0] or "(none)"
            else:
                pending[number] = "\n\n".join(said)
    return summaries


def _pieces(text: str, tokens: int) -> Iterator[str]:
    """Cut a text into pieces of at most as many tokens, the instruction's included."""
    share = (tokens - most_tokens(_SUMMARIZE)) / most_tokens(text)
    if share >= 1:
        yield text
        return
    width = max(1, int(len(text) * share * 0.9))
    for start in range(0, len(text), width):
        yield text[start : start + width]


def _joined(
    document: Document,
    chunks: Sequence[Chunk],
    replies: Sequence[Reply | ProviderError],
    settings: LLMContext,
) -> list[ContextualizedChunk] | ProviderError:
    structural = [""] * len(chunks)
    if settings.structural:
        structural = structural_contexts(document, chunks, StructuralContext(method="structural"))
    contextualized = []
    for chunk, reply, known in zip(chunks, replies, structural, strict=True):
        if isinstance(reply, ProviderError):
            return ProviderError(f"{chunk.chunk_id}: {reply}")
        written = cut_line(reply.text, settings.max_characters)
        context = "\n".join(part for part in (known, written) if part)
        contextualized.append(ContextualizedChunk(chunk, context))
    return contextualized
