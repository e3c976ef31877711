"""Write the contexts of chunks with a chat model that reads the whole document.

Source: Anthropic, "Introducing Contextual Retrieval" (September 2024). A prompt begins with the
document, which the provider's prompt cache serves to the document's later chunks. If a document
exceeds the context window, a summary by the model and the part around the chunk replace it.
Neighbouring chunks share this part.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field, field_validator

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
from rag_pipeline.models.prompts import Shown, Template, fill, inert, template_of

_SUMMARY_CHARACTERS = 2_000
_FRAME_TOKENS = 64
"""Number of tokens that a server's chat template adds to the messages."""
_PROMPT = template_of(__file__)
_SUMMARY = template_of(__file__, "summary")


class LLMContext(ContextualizerSettings):
    """Contexts by the chat model `chat`, which reads the whole document.

    A `template` replaces the packaged prompt. It must contain `{document}` and, later, `{chunk}`,
    which become the texts between tags. The optional `{document_name}` becomes the title, file
    name, parties and date. If `structural` is set, the context begins with the structural context.
    """

    code_version = 2
    method: Literal["llm"]
    chat: ChatName
    template: str | None = None
    max_characters: int = Field(default=600, ge=16)
    structural: bool = False

    @field_validator("template")
    @classmethod
    def _has_both(cls, template: str | None) -> str | None:
        text = _PROMPT.using(template).user
        places = [text.count("{document}"), text.count("{chunk}")]
        if places != [1, 1] or "{chunk}" not in text.partition("{document}")[2]:
            raise ValueError(
                "template must hold {document} once and, after it, {chunk} once: the provider's "
                "prompt cache serves only a document that comes first"
            )
        return template

    @property
    def prompt(self) -> Template:
        """Return the user's template, or else the packaged template."""
        return _PROMPT.using(self.template)

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model, the prompts and, if set, the structural context."""
        given = [StructuralContext(method="structural")] if self.structural else []
        return [*super().made_from(config), self.prompt.version, _SUMMARY.version, *given]

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Return the model's context of each chunk, or raise ProviderError if the model fails."""
        ((_, made),) = self.contextualize([(document, chunks)], models)
        if isinstance(made, ProviderError):
            raise made
        return [one.context for one in made]

    def contextualize(self, documents: Iterable[Chunked], models: Models) -> Iterator[Outcome]:
        """Yield each document with its contextualized chunks or its error.

        All prompts are sent together, so that many calls run at the same time.
        """
        chunked = list(documents)
        chat = models.config.section("chats")[self.chat]
        made = contextualize_with_model(chunked, self, chat, partial(models.ask, chat=self.chat))
        yield from zip((document for document, _ in chunked), made, strict=True)

    def is_too_long(self, document: Document, chunks: Sequence[Chunk], c: CorpusFile) -> bool:
        """Return whether a prompt with the whole document may exceed the context window."""
        room = _room(document, chunks, self, c.section("chats")[self.chat])
        return most_tokens(inert(document.text)) > room


def contextualize_with_model(
    documents: Sequence[Chunked], settings: LLMContext, chat: ChatSettings, ask: Ask
) -> list[list[ContextualizedChunk] | ProviderError]:
    """Return each document's chunks with the contexts that the model writes, or an error.

    If the model fails on a chunk, return the ProviderError for its document. The call cache keeps
    the contexts of the other chunks. Raise CallsStoppedError if no call can work.
    """
    shown = [(replace(one, text=inert(one.text)), chunks) for one, chunks in documents]
    summaries = _summaries(shown, settings, chat, ask)
    prompts: list[Prompt] = []
    places: list[slice | ProviderError] = []
    for (document, chunks), summary in zip(shown, summaries, strict=True):
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
    """Return each chunk's prompt. A document over the context window needs its `summary`."""
    template, name = settings.prompt, "; ".join(part for part in about(document) if part)
    head, _, tail = template.user.partition("{chunk}")
    shown = [document.text] * len(chunks)
    if summary:
        room = _room(document, chunks, settings, chat) - most_tokens(inert(summary))
        shown = list(_excerpts(document, chunks, summary, room))
    # Thousands of prompts share one string per document or window.
    prefixes = {
        text: fill(head, document=Shown(text, name), document_name=name)
        for text in dict.fromkeys(shown)
    }
    replaced = replace(template, user="{chunk}" + tail)
    return [
        replace(replaced.prompt(chunk=chunk.text, document_name=name), prefix=prefixes[text])
        for chunk, text in zip(chunks, shown, strict=True)
    ]


def _room(
    document: Document, chunks: Sequence[Chunk], settings: LLMContext, chat: ChatSettings
) -> int:
    """Return the number of tokens in the context window that are left for the document."""
    nothing = replace(document, text=""), [Chunk(document.document_id, 0, 0, "")]
    (empty,) = context_prompts(*nothing, settings, chat)
    frame = sum(most_tokens(one["content"]) for one in empty.messages) + _FRAME_TOKENS
    return chat.context_window - chat.max_output_tokens - frame - _longest(chunks)


def _longest(chunks: Sequence[Chunk]) -> int:
    return max((most_tokens(chunk.text) for chunk in chunks), default=0)


# --- documents longer than the window ---


def _width(text: str, tokens: int) -> int:
    """Return the number of characters of a text with at most about `tokens` tokens."""
    share = tokens / most_tokens(text)
    return int(len(text) * share * 0.9)


def _excerpts(
    document: Document, chunks: Sequence[Chunk], summary: str, tokens: int
) -> Iterator[str]:
    """Yield for each chunk the title, the summary, and the window of `tokens` tokens around it."""
    title = f"{document.title}\n\n" if document.title else ""
    width = max(2, _width(document.text, tokens))
    step = width // 2
    last = max(0, -(-(len(document.text) - width) // step))
    for chunk in chunks:
        number = round(((chunk.start + chunk.end) / 2 - width / 2) / step)
        start = step * min(max(number, 0), last)
        part = document.text[start : start + width]
        yield f"{title}Summary of the whole document: {summary}\n\nA part of it:\n{part}"


def _summaries(
    documents: Sequence[Chunked], settings: LLMContext, chat: ChatSettings, ask: Ask
) -> list[str | ProviderError]:
    """Return the summary or error of each document over the context window, or "" for others.

    The model summarizes pieces that fit the window, and then the joined summaries, until a single
    summary is left.
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
            f"context_window {chat.context_window}: max_output_tokens {chat.max_output_tokens}, "
            f"prompt and chunk leave room for {max(0, room)}, and at least {least} are needed. "
            f"Raise context_window, or lower max_output_tokens or the chunks' size"
        )
    while pending:
        pieces = {n: _pieces(text, rooms[n]) for n, text in pending.items()}
        shown = [Shown(piece, documents[n][0].title) for n, own in pieces.items() for piece in own]
        replies = iter(ask([_SUMMARY.prompt(document=one) for one in shown]))
        for number, own in pieces.items():
            del pending[number]
            # The loop ends because each summary is shorter than its piece.
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


def _pieces(text: str, tokens: int) -> list[str]:
    """Cut a text into pieces of at most `tokens` tokens, including the instruction."""
    own = tokens - most_tokens(_SUMMARY.user + _SUMMARY.system + str(_SUMMARY.examples))
    width = max(1, len(text) if own >= most_tokens(text) else _width(text, own))
    return [text[start : start + width] for start in range(0, len(text), width)]


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
