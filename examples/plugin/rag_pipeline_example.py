"""One small plugin of each kind; pyproject.toml names them as entry points of rag_pipeline."""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_pipeline.calls.costs import record, require_budget
from rag_pipeline.config import (
    ChatSettings,
    ChunkingSettings,
    ContextualizerSettings,
    EmbeddingSettings,
    Models,
    RelevanceJudge,
)
from rag_pipeline.config.models import Completion, InputType
from rag_pipeline.config.rerankers import ModelReranker, RerankLimits
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import (
    Chunk,
    Document,
    Prompt,
    Query,
    ScoredChunk,
    Span,
    Usage,
    Vectors,
)
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import Answered, AnswerScore
from rag_pipeline.evaluation.metrics import Metric, RankingMetric

_WORD = re.compile(r"\w+")


class ParagraphChunking(ChunkingSettings):
    """A chunk for every `size` paragraphs, which blank lines separate."""

    method: Literal["paragraphs"]
    size: int = Field(default=1, ge=1)

    def spans(self, document: Document, models: Models) -> list[Span]:
        """Return the spans of runs of paragraphs."""
        found = [m.span() for m in re.finditer(r"\S.*?(?=\s*(?:\n\s*\n|\Z))", document.text, re.S)]
        runs = [found[i : i + self.size] for i in range(0, len(found), self.size)]
        return [(run[0][0], run[-1][1]) for run in runs]


class TopicContext(ContextualizerSettings):
    """What a model of `chats` calls the document's topic, before each of its chunks."""

    method: Literal["topic"]
    chat: ChatName

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Ask once a document; the same text is never asked about again."""
        (reply,) = models.ask([Prompt(document.text, system="Name the topic.")], self.chat)
        if isinstance(reply, ProviderError):
            raise reply
        return [reply.text] * len(chunks)


class HashingEmbedding(EmbeddingSettings):
    """Counts of words, hashed to `dimensions` numbers: no model, no cost."""

    prices: ClassVar[Mapping[str, Any]] = {"date": "2026-01-01", "models": {"*": {}}}
    provider: Literal["hashing"]
    dimensions: int = Field(default=64, ge=8)

    def open(self) -> "HashingEmbedder":
        """Return the embedder."""
        return HashingEmbedder(self.dimensions)


class HashingEmbedder:
    """A local embedder; `identity` is part of the key under which each vector is kept."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.identity = f"hashing:{dimension}"

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of all texts as one request."""
        yield list(range(len(texts)))

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Return vectors of length 1; a text without words is told by the first number."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.lower()) or [""]:
                row[zlib.crc32(word.encode()) % self.dimension] += 1
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class FirstWordsChat(ChatSettings):
    """A "model" that answers with the first `words` words of the last message."""

    prices: ClassVar[Mapping[str, Any]] = {
        "date": "2026-01-01",
        "models": {"parrot": {"input": 1.0, "output": 2.0}},
    }
    provider: Literal["first_words"]
    words: int = Field(default=4, ge=1)

    @property
    def identity(self) -> str:
        """Return what names the model and all that changes its answers."""
        return f"first_words:{self.model}:{self.words}"

    def open(self) -> "FirstWords":
        """Return a client."""
        return FirstWords(self)


class FirstWords:
    """A client: a vendor's would send the messages (`calls.Endpoint` keeps its limits)."""

    max_concurrency = 4

    def __init__(self, settings: FirstWordsChat) -> None:
        self.identity = settings.identity
        self._settings = settings

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> Completion:
        """Answer, and tell the ledger what it cost."""
        settings, asked = self._settings, messages[-1]["content"].split()
        require_budget(settings.provider, settings.model, None)
        used = Usage(input_tokens=len(asked), output_tokens=settings.words)
        record(
            "chat",
            settings.provider,
            settings.model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
        )
        return Completion(" ".join(asked[: settings.words]), used)

    async def close(self) -> None:
        """Close no connections."""


class SharedWordsReranker(ModelReranker):
    """Puts passages first that have many of the query's words."""

    prices: ClassVar[Mapping[str, Any]] = {
        "date": "2026-01-01",
        "models": {"*": {"input": 0.1}},
    }
    method: Literal["shared_words"]

    def open(self) -> "SharedWords":
        """Return the scorer."""
        return SharedWords()


class SharedWords:
    """A local scorer; `identity` is part of the key under which scores are kept."""

    identity = "shared_words:1"
    limits = RerankLimits(passages=1000, pair_tokens=None)
    truncate = True

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the share of the query's words that each passage has, and charge for it."""
        require_budget("shared_words", "shared_words", None)
        asked, found = _words(query), [_words(passage) for passage in passages]
        record("rerank", "shared_words", "shared_words", input_tokens=sum(map(len, found)))
        return [len(asked & words) / max(len(asked), 1) for words in found]


class SharedWordsJudge(RelevanceJudge):
    """A passage answers a query with which it shares at least `words` words."""

    judge: Literal["shared_words"]
    words: int = Field(default=2, ge=1)

    def label(
        self, asked: Sequence[tuple[Query, ScoredChunk]], models: Models
    ) -> Sequence[bool | ProviderError]:
        """Return whether each passage shares enough words with its query."""
        words = [(_words(query.query), _words(chunk.text)) for query, chunk in asked]
        return [len(asked & found) >= self.words for asked, found in words]


WORDS_AT_1 = RankingMetric(
    name="Words@1",
    definition="Number of words of the first chunk.",
    measure=lambda ranking: float(len(_WORD.findall(ranking.chunks[0].text))),
    needs="chunks",
    is_share=False,
)


class Brevity(AnswerScore):
    """One divided by the number of the answer's words; none where nothing is answered."""

    score: Literal["brevity"]
    metrics: ClassVar[tuple[Metric[Answered], ...]] = (
        Metric(
            name="Brevity",
            definition="One divided by the number of the answer's words.",
            measure=lambda one: 1 / len(one.answer.text.split()) if one.answer.answered else None,
        ),
    )


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
