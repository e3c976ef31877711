"""Text -> the offset of each token, to cut texts at a model's token limit."""

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rag_pipeline.config.models import TokenStarts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SLICE = 65_536
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
_LONGEST_WORD = 100
"""WordPiece turns any word over 100 characters into one unknown token."""
_CHARACTERS_PER_TOKEN = 4


def tokenizer_starts(tokenizer: "Tokenizer", text: str) -> TokenStarts:
    """Return the ascending offsets of a text's tokens; the tokenizer must not cut or pad.

    In a word too long for the vocabulary, every 4 characters count as a token. The text is
    tokenized in slices that end after white space, as an encoding takes about 150 bytes a token.
    """
    parts = [np.empty(0, np.int64)]
    begin = 0
    while begin < len(text):
        end = begin + _SLICE
        if end < len(text) and (space := _LAST_SPACE.search(text, begin + _SLICE // 2, end)):
            end = space.end()
        offsets = tokenizer.encode(text[begin:end], add_special_tokens=False).offsets
        parts.append(begin + _long_words_cut(np.array(offsets, np.int64).reshape(-1, 2)))
        begin = end
    # Unicode normalisation may swap marks, so offsets may descend.
    ascending: TokenStarts = np.maximum.accumulate(np.concatenate(parts))
    return ascending


def _long_words_cut(offsets: npt.NDArray[np.int64]) -> TokenStarts:
    lengths = offsets[:, 1] - offsets[:, 0]
    counts = np.where(lengths > _LONGEST_WORD, -(-lengths // _CHARACTERS_PER_TOKEN), 1)
    first_of_word = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(len(first_of_word)) - first_of_word
    starts: TokenStarts = np.repeat(offsets[:, 0], counts)
    starts += within * _CHARACTERS_PER_TOKEN
    return starts
