"""Text -> windows of a fixed number of tokens of the packaged tokenizer."""

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from rag_pipeline.chunking.spans import trim
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.datamodels import Document, Span

_SLICE = 65_536
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
_LONGEST_WORD = 100
"""WordPiece makes one unknown token of a word over 100 characters, however long it is."""
_CHARACTERS_PER_TOKEN = 4


class FixedChunking(ChunkingSettings):
    """Windows of `tokens` tokens that overlap by `overlap` tokens."""

    method: Literal["fixed"]
    tokens: int = Field(default=200, ge=8)
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "FixedChunking":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens {self.tokens}")
        return self

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Cut a document into its windows."""
        return fixed_spans(document.text, self.tokens, self.overlap)


def fixed_spans(text: str, tokens: int, overlap: int) -> list[Span]:
    """Return windows of `tokens` tokens, each starting `tokens - overlap` after the one before.

    A window reaches to the start of the first token after it, so that characters without a token
    (control characters) are in a window too. Of a word too long for the vocabulary, every 4
    characters count as a token.
    """
    starts = _token_starts(text)
    spans: list[Span] = []
    step = tokens - overlap
    for first in range(0, max(len(starts), 1), step):
        past = first + tokens
        start = int(starts[first]) if first else 0
        end = int(starts[past]) if past < len(starts) else len(text)
        span = trim(text, start, end)
        if span[0] < span[1] and span not in spans[-1:]:
            spans.append(span)
        if past >= len(starts):
            break
    return spans


def _token_starts(text: str) -> npt.NDArray[np.int64]:
    """Return where each token starts, ascending; a character of several tokens is there as often.

    The text is tokenized in slices that end after white space: the tokens are the same, and a
    long document's encoding (some 150 bytes a token) is never in memory as a whole.
    """
    from rag_pipeline.models.providers.minilm import load_tokenizer

    tokenizer = load_tokenizer()
    parts = [np.empty(0, np.int64)]
    begin = 0
    while begin < len(text):
        end = begin + _SLICE
        if end < len(text) and (space := _LAST_SPACE.search(text, begin + _SLICE // 2, end)):
            end = space.end()
        offsets = tokenizer.encode(text[begin:end], add_special_tokens=False).offsets
        parts.append(begin + _long_words_cut(np.array(offsets, np.int64).reshape(-1, 2)))
        begin = end
    # Unicode normalisation may swap marks: without this a window could end before it starts.
    ascending: npt.NDArray[np.int64] = np.maximum.accumulate(np.concatenate(parts))
    return ascending


def _long_words_cut(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    lengths = offsets[:, 1] - offsets[:, 0]
    counts = np.where(lengths > _LONGEST_WORD, -(-lengths // _CHARACTERS_PER_TOKEN), 1)
    first_of_word = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(len(first_of_word)) - first_of_word
    starts: npt.NDArray[np.int64] = np.repeat(offsets[:, 0], counts)
    starts += within * _CHARACTERS_PER_TOKEN
    return starts
