"""Limit the size of chunks in characters, in tokens of an embedding model, or both."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidatorFunctionWrapHandler, model_validator

from rag_pipeline.config import CorpusFile
from rag_pipeline.config.chunkings import ChunkingSettings, Models
from rag_pipeline.config.models import TokenStarts, embedding_or_packaged
from rag_pipeline.config.settings import EmbeddingName, Settings
from rag_pipeline.errors import ConfigError

SPECIAL_TOKENS = 2
"""Number of tokens that a model adds to a text: [CLS] and [SEP]."""


class Limit:
    """A maximum size for the spans of one text, in characters, tokens or both."""

    def __init__(
        self,
        characters: int | None = None,
        tokens: int | None = None,
        starts: TokenStarts | None = None,
    ) -> None:
        self.characters = characters
        self.tokens = tokens
        self._starts = starts

    def fits(self, start: int, end: int, share: float = 1.0) -> bool:
        """Return whether a span has at most `share` (0 to 1) of the maximum size."""
        if self.characters is not None and end - start > share * self.characters:
            return False
        return self.tokens is None or self._tokens(start, end) <= share * self.tokens

    def size(self, start: int, end: int) -> int:
        """Return a span's size, in characters if the limit has characters, or else in tokens."""
        return end - start if self.characters is not None else self._tokens(start, end)

    def cuts(self, start: int, end: int) -> Iterator[int]:
        """Yield offsets that cut a span into parts within the limit."""
        at = start
        while not self.fits(at, end):
            steps = [at + self.characters] if self.characters is not None else []
            if self.tokens is not None and self._starts is not None:
                past = int(np.searchsorted(self._starts, at)) + self.tokens
                if past < len(self._starts):
                    steps.append(int(self._starts[past]))
            at = max(min(steps), at + 1)
            yield at

    def _tokens(self, start: int, end: int) -> int:
        assert self._starts is not None
        first, past = np.searchsorted(self._starts, (start, end))
        return int(past - first)


class SizedChunking(ChunkingSettings):
    """Chunking with at most `max_characters` characters, `max_tokens` tokens, or both per chunk.

    If only `max_tokens` is set, characters are not limited. `tokens_of` names the embedding that
    counts tokens, by default the packaged model. If `max_tokens` is set, table rows and lines of
    fenced code stay whole if they fit, and no chunk ends in a heading.
    """

    code_version = 2
    max_characters: int | None = Field(default=500, ge=32)
    max_tokens: int | None = Field(default=None, ge=16)
    tokens_of: EmbeddingName | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _by_tokens_alone(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Self:
        if isinstance(value, dict) and value.get("max_tokens") is not None:
            value = {"max_characters": None, **value}
        made: Self = handler(value)
        if made.max_characters is None and made.max_tokens is None:
            raise ValueError("set max_characters or max_tokens")
        if made.tokens_of is not None and made.max_tokens is None:
            raise ValueError("tokens_of: has no effect without max_tokens; set max_tokens")
        return made

    def limit(self, text: str, models: Models) -> Limit:
        """Return the limit for the chunks of a text."""
        if self.max_tokens is None:
            return Limit(self.max_characters)
        starts = models.token_starts(text, self.tokens_of)
        return Limit(self.max_characters, self.max_tokens, starts)

    def models_used(self, config: CorpusFile) -> list[Settings]:
        """Return [], because counting tokens calls no model."""
        return []

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the settings of the models that are called or count tokens."""
        made = super().made_from(config)
        counts = self.max_tokens is not None
        return [*made, embedding_or_packaged(config, self.tokens_of)] if counts else made

    def check(self, config: CorpusFile) -> None:
        """Raise ConfigError if `max_tokens` exceeds the window of the embedding `tokens_of`."""
        if self.max_tokens is None:
            return
        window = embedding_or_packaged(config, self.tokens_of).window
        if window is not None and self.max_tokens > window - SPECIAL_TOKENS:
            raise ConfigError(
                f"max_tokens: {self.max_tokens} exceeds the {window - SPECIAL_TOKENS} tokens that "
                f"{self.tokens_of or 'the packaged model'} reads; lower max_tokens"
            )
