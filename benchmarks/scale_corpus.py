"""Generated documents, vectors and queries of any number, the same at every call.

Words follow Zipf's law with stop words on top, each document prefers the words of its topic and
names its two parties; lengths are log-normal. Vectors lie around topics and documents with a
spectrum that decays, as those of language models do.
"""

import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.models.embedding import Embedded

DIMENSION = 384
VOCABULARY, TOPICS, TOPIC_WORDS = 100_000, 400, 300
CHUNKS_PER_DOCUMENT, CHUNK_WORDS = 20, 75
CHUNK_TOKENS, QUERY_TOKENS, TOKEN_IDS = 100, 20, 30_000
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeiou"
Array = npt.NDArray[np.float32]


class Asked(NamedTuple):
    """A query, already encoded, and the chunk that it was made from."""

    text: str
    encoded: Embedded

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the encoded query, whatever text is embedded."""
        return self.encoded


def _seeded(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


class Words:
    """A vocabulary by rank: the most frequent words are English stop words."""

    def __init__(self) -> None:
        from bm25s.stopwords import STOPWORDS_EN_PLUS

        stop = [word for word in STOPWORDS_EN_PLUS if word.isalpha()][:150]
        rng = _seeded("words")
        made = dict.fromkeys(stop)
        while len(made) < VOCABULARY:
            syllables = min(2 + len(made) // 3000, 4)
            letters = rng.integers(0, (len(_CONSONANTS), len(_VOWELS)), (syllables, 2))
            made["".join(_CONSONANTS[c] + _VOWELS[v] for c, v in letters.tolist())] = None
        self.by_rank = np.array(list(made), dtype=object)
        shares = 1 / (np.arange(VOCABULARY) + 2.7)
        self._shares = np.cumsum(shares / shares.sum())

    def draw(self, rng: np.random.Generator, count: int, topic: int) -> list[str]:
        """Return words of the language, one in seven a word of the topic."""
        ranks = np.searchsorted(self._shares, rng.random(count))
        ranks = np.minimum(ranks, VOCABULARY - 1)
        preferred = _seeded("topic", topic).integers(150, VOCABULARY // 3, TOPIC_WORDS)
        special = rng.random(count) < 1 / 7
        ranks[special] = preferred[rng.integers(0, TOPIC_WORDS, special.sum())]
        words: list[str] = self.by_rank[ranks].tolist()
        return words


class ScaleCorpus:
    """About as many chunks as are asked for, in documents of 20 on average."""

    def __init__(self, chunks: int) -> None:
        self.documents = max(chunks // CHUNKS_PER_DOCUMENT, 1)

    @cached_property
    def _words(self) -> Words:
        return Words()

    @cached_property
    def _spread(self) -> Array:
        """Return what gives noise the spectrum: a decaying scale on random axes."""
        axes, _ = np.linalg.qr(_seeded("axes").normal(size=(DIMENSION, DIMENSION)))
        scales = np.arange(1, DIMENSION + 1) ** -0.6
        scales *= (DIMENSION / (scales**2).sum()) ** 0.5
        return (scales[:, None] * axes).astype(np.float32)

    @cached_property
    def _topics(self) -> Array:
        return self._noise(_seeded("topics"), TOPICS)

    def _noise(self, rng: np.random.Generator, count: int) -> Array:
        return rng.standard_normal((count, DIMENSION), np.float32) @ self._spread

    def name(self, number: int) -> str:
        first, second = self.parties(number)
        return f"{number // 1000:04d}/{first}-{second}-{number}.txt"

    def parties(self, number: int) -> tuple[str, str]:
        rng = _seeded("parties", number)
        names = self._words.by_rank[rng.integers(20_000, VOCABULARY, 2)]
        return names[0], names[1]

    def text(self, number: int, edition: int = 0) -> str:
        """Return a document: title, and numbered sections of sentences."""
        rng, topic = _seeded("text", number, edition), number % TOPICS
        first, second = self.parties(number)
        # the mean of a log-normal is exp(sigma ** 2 / 2)
        scale = CHUNKS_PER_DOCUMENT * CHUNK_WORDS * np.exp(-(0.7**2) / 2)
        count = int(np.clip(scale * rng.lognormal(0, 0.7), 150, 30_000))
        words = self._words.draw(rng, count, topic)
        parts = [f"Agreement between {first.title()} and {second.title()}\n"]
        at = section = 0
        while at < count:
            section += 1
            parts.append(f"\n{section}. {' '.join(words[at : at + 3]).title()}\n\n")
            at += 3
            for length in rng.integers(8, 32, rng.integers(3, 12)).tolist():
                sentence = " ".join(words[at : at + length])
                at += length
                parts.append(f"{sentence.capitalize()} {rng.integers(1, 400)}. ")
        return "".join(parts) + "\n"

    def write(self, folder: Path) -> None:
        """Write every document as a file."""
        for number in range(self.documents):
            self.write_one(folder, number)

    def write_one(self, folder: Path, number: int, edition: int = 0) -> None:
        file = folder / self.name(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text(number, edition), encoding="utf-8")

    def embedded(self, texts: Sequence[str], documents: Sequence[str]) -> Embedded:
        """Return vectors that depend on the document, the text and nothing else."""
        rng = _seeded("vectors", documents[0], texts[0])
        numbers = [int(d.rpartition("-")[2].removesuffix(".txt")) for d in documents]
        own = {n: self._noise(_seeded("document", n), 1)[0] for n in set(numbers)}
        vectors = self._topics[np.array(numbers) % TOPICS] + 0.7 * np.array(
            [own[n] for n in numbers]
        )
        vectors += 0.8 * self._noise(rng, len(texts))
        size = CHUNK_TOKENS * DIMENSION // 8
        tokens = self._token_ids(rng, len(texts), CHUNK_TOKENS)
        packed = [ids.tobytes() + rng.bytes(size) for ids in tokens]
        return Embedded(_unit(vectors), packed)

    @staticmethod
    def _token_ids(rng: np.random.Generator, rows: int, columns: int) -> npt.NDArray[np.uint32]:
        drawn = TOKEN_IDS ** rng.random((rows, columns)) - 1  # as Zipf's law has it
        return drawn.astype(np.uint32)

    def asked(self, chunk: str, document_id: str, vector: Array, seed: int) -> Asked:
        """Return a query for a chunk: every second one names the parties of its document."""
        rng = _seeded("query", seed)
        words = [word for word in chunk.lower().split() if word.isalpha()]
        said = " ".join(rng.choice(words, min(8, len(words)), replace=False).tolist())
        number = int(document_id.rpartition("-")[2].removesuffix(".txt"))
        first, second = self.parties(number)
        if seed % 2:
            said = f"Agreement between {first.title()} and {second.title()}; {said}"
        near = _unit(vector[None] + 0.5 * _unit(self._noise(rng, 1)))[0]
        ids = self._token_ids(rng, 1, QUERY_TOKENS)
        tokens = rng.standard_normal((QUERY_TOKENS, DIMENSION), np.float32) / DIMENSION**0.5
        packed = ids.tobytes() + tokens.astype(np.float16).tobytes()
        return Asked(said, Embedded(near[None], [packed]))


def _unit(vectors: Array) -> Array:
    scaled: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled.astype(np.float32)
