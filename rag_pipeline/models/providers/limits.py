"""Define the limits of requests to each model. Count the tokens of texts, and cut long texts.

Sources: platform.openai.com/docs/api-reference/embeddings, docs.voyageai.com/docs/embeddings,
docs.voyageai.com/docs/contextualized-chunk-embeddings, docs.voyageai.com/docs/reranker,
docs.cohere.com/docs/reranking-best-practices, jina.ai/reranker.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag_pipeline.config.rerankers import RerankLimits as RerankLimits
from rag_pipeline.errors import ConfigError, TextTooLongError


@dataclass(frozen=True, slots=True)
class EmbeddingLimits:
    """The limits of an embedding model.

    `dimensions` are the possible lengths of vectors, with the default first. A request has at most
    `texts` texts and `request_tokens` tokens. Each text has at most `text_tokens` tokens. For a
    `contextual` model, which embeds chunks together, this is the limit of a document.
    """

    texts: int
    request_tokens: int
    text_tokens: int | None
    dimensions: tuple[int, ...] = ()
    any_shorter: bool = False
    contextual: bool = False

    def dimension(self, model: str, wanted: int | None) -> int:
        """Return the length of a model's vectors. Raise ConfigError if `wanted` is impossible."""
        if not self.dimensions:
            if wanted is None:
                raise ConfigError(
                    f"{model}: unknown model; set `dimensions` to the length of its vectors"
                )
            return wanted
        usual = self.dimensions[0]
        shorter = self.any_shorter and wanted is not None and wanted < usual
        if wanted is not None and wanted not in self.dimensions and not shorter:
            allowed = f"1 to {usual}" if self.any_shorter else ", ".join(map(str, self.dimensions))
            raise ConfigError(f"{model}: dimensions {wanted} is not one of: {allowed}")
        return wanted or usual


_UNKNOWN = EmbeddingLimits(texts=256, request_tokens=100_000, text_tokens=None)
_VOYAGE_3 = (1024, 256, 512, 2048)


def _voyage(request_tokens: int) -> EmbeddingLimits:
    return EmbeddingLimits(1000, request_tokens, 32_000, _VOYAGE_3)


# Without auto-chunking a request accepts at most 32,000 tokens.
_VOYAGE_CONTEXT = EmbeddingLimits(1000, 32_000, 32_000, _VOYAGE_3, contextual=True)
_OPENAI_3 = EmbeddingLimits(2048, 300_000, 8192, any_shorter=True)
EMBEDDING_LIMITS: dict[str, EmbeddingLimits] = {
    "text-embedding-3-small": replace(_OPENAI_3, dimensions=(1536,)),
    "text-embedding-3-large": replace(_OPENAI_3, dimensions=(3072,)),
    "text-embedding-ada-002": EmbeddingLimits(2048, 300_000, 8192, (1536,)),
    "voyage-4-large": _voyage(120_000),
    "voyage-4": _voyage(320_000),
    "voyage-4-lite": _voyage(1_000_000),
    "voyage-3.5": _voyage(320_000),
    "voyage-3.5-lite": _voyage(1_000_000),
    "voyage-3-large": _voyage(120_000),
    "voyage-code-3": _voyage(120_000),
    "voyage-finance-2": EmbeddingLimits(1000, 120_000, 32_000, (1024,)),
    "voyage-multilingual-2": EmbeddingLimits(1000, 120_000, 32_000, (1024,)),
    "voyage-law-2": EmbeddingLimits(1000, 120_000, 16_000, (1024,)),
    "voyage-context-3": _VOYAGE_CONTEXT,
    "voyage-context-4": _VOYAGE_CONTEXT,
}
RERANK_LIMITS: dict[str, RerankLimits] = {
    "rerank-2.5": RerankLimits(1000, 32_000, 600_000),
    "rerank-2.5-lite": RerankLimits(1000, 32_000, 600_000),
    "rerank-2": RerankLimits(1000, 16_000, 600_000),
    "rerank-2-lite": RerankLimits(1000, 8_000, 600_000),
    "rerank-v4.0-pro": RerankLimits(10_000, 32_764),
    "rerank-v4.0-fast": RerankLimits(10_000, 32_764),
    "rerank-v3.5": RerankLimits(10_000, 4_092),
    "rerank-english-v3.0": RerankLimits(10_000, 4_092),
    "rerank-multilingual-v3.0": RerankLimits(10_000, 4_092),
    # jina-reranker-v3 compares the passages of one request with each other.
    "jina-reranker-v3": RerankLimits(1000, 131_000),
    "jina-reranker-v2-base-multilingual": RerankLimits(1000, None),
    "jina-reranker-m0": RerankLimits(1000, 10_240),
}
UNKNOWN_RERANKER = RerankLimits(1000, None)


def embedding_limits(model: str, **own: int | None) -> EmbeddingLimits:
    """Return a model's limits. Each value of `own` that is not None replaces a known limit."""
    known = EMBEDDING_LIMITS.get(model, _UNKNOWN)
    return replace(known, **{name: value for name, value in own.items() if value is not None})  # type: ignore[arg-type]


class TokenCounter:
    """A counter of tokens that uses a tokenizer.json, or else a high estimate.

    The estimate is one token per 3 ASCII characters, and one per 2 bytes of other characters in
    UTF-8. English prose has one token per 4 to 5 characters, Chinese one per 1 to 2.
    """

    def __init__(self, tokenizer: str | None = None) -> None:
        self._tokenizer = None
        if tokenizer is not None:
            from tokenizers import Tokenizer

            if not Path(tokenizer).is_file():
                raise ConfigError(f"tokenizer: no such file: {tokenizer}")
            try:
                self._tokenizer = Tokenizer.from_file(tokenizer)
            except Exception as error:  # noqa: BLE001 - tokenizers has no other error class
                raise ConfigError(f"tokenizer: {tokenizer}: {error}") from None
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()

    @property
    def exact(self) -> bool:
        """Return whether a tokenizer counts the tokens."""
        return self._tokenizer is not None

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens."""
        if self._tokenizer is not None:
            return [len(e.ids) for e in self._tokenizer.encode_batch(list(texts))]
        return [_estimate(text) for text in texts]

    def cut(self, text: str, tokens: int) -> str:
        """Return the longest prefix of a text with at most `tokens` tokens."""
        ends = range(1, len(text) + 1)
        return text[: bisect_right(ends, tokens, key=lambda end: self.count([text[:end]])[0])]

    def fit(self, texts: Sequence[str], model: str, most: int | None, truncate: bool) -> list[str]:
        """Return the texts, each with at most `most` tokens. If `most` is None, change no text.

        A longer text is cut if `truncate` is set. Otherwise, raise TextTooLongError.
        """
        fitting = list(texts)
        for place, text in enumerate(texts):
            # A token has at least one byte.
            if most is None or len(text.encode()) <= most:
                continue
            (tokens,) = self.count([text])
            if tokens <= most:
                continue
            if not truncate:
                about = "" if self.exact else "about "
                cure = "" if self.exact else ", or name its tokenizer.json under `tokenizer`"
                raise TextTooLongError(
                    f"{model}: {about}{tokens:,} tokens, {most:,} are allowed; make chunks "
                    f"smaller, set `truncate: true`{cure}",
                    text,
                )
            fitting[place] = self.cut(text, most)
        return fitting


def _estimate(text: str) -> int:
    size = len(text.encode())
    if size == len(text):
        return -(-size // 3)
    plain = sum(character < "\x80" for character in text)
    return -(-plain // 3) + -(-(size - plain) // 2)
