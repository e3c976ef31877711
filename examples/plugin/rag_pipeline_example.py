"""One small plugin of each kind; pyproject.toml names them as entry points of rag_pipeline."""

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import typer
from pydantic import Field

from rag_pipeline.cli.find import open_corpus
from rag_pipeline.cli.options import CorpusArgument
from rag_pipeline.config import (
    AnswerMethod,
    ChunkingSettings,
    ContextJudge,
    ContextualizerSettings,
    EntityExtractor,
    Models,
    RelevanceJudge,
)
from rag_pipeline.config.models import Completion, InputType
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import (
    Answer,
    Answered,
    Chunk,
    Citation,
    ContextJudgement,
    Document,
    Entity,
    Judged,
    Level,
    Prompt,
    Query,
    ScoredChunk,
    SearchResult,
    Span,
    Usage,
    Vectors,
)
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.metrics import Metric, RankingMetric
from rag_pipeline.models.local import LocalChat, LocalEmbedding, LocalReranker
from rag_pipeline.search.ranking import reciprocal_rank_fusion
from rag_pipeline.search.retrievers import Ranking, Search, TermRetriever

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
    """Puts the document's topic, named by a model of `chats`, before each of its chunks."""

    method: Literal["topic"]
    chat: ChatName

    def contexts(self, document: Document, chunks: Sequence[Chunk], models: Models) -> list[str]:
        """Ask once a document; the same text is never asked about again."""
        (reply,) = models.ask([Prompt(document.text, system="Name the topic.")], self.chat)
        if isinstance(reply, ProviderError):
            raise reply
        return [reply.text] * len(chunks)


class HashingEmbedding(LocalEmbedding):
    """Counts of words, hashed to `dimensions` numbers: no model, no cost."""

    prices: ClassVar[Mapping[str, Any]] = {"date": "2026-01-01", "models": {"*": {}}}
    provider: Literal["hashing"]
    dimensions: int = Field(default=64, ge=8)

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Return a row per text; a text without words has only the word ""."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.lower()) or [""]:
                row[zlib.crc32(word.encode()) % self.dimensions] += 1
        return vectors


class FirstWordsChat(LocalChat):
    """A "model" that answers with the first `words` words of the last message."""

    prices: ClassVar[Mapping[str, Any]] = {
        "date": "2026-01-01",
        "models": {"parrot": {"input": 1.0, "output": 2.0}},
    }
    provider: Literal["first_words"]
    words: int = Field(default=4, ge=1)

    def answer(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> Completion:
        """Return the answer, and the tokens that are charged for."""
        asked = messages[-1]["content"].split()
        used = Usage(input_tokens=len(asked), output_tokens=self.words)
        return Completion(" ".join(asked[: self.words]), used)


class SpreadRetriever(TermRetriever):
    """Vectors and terms by reciprocal rank; of each document `per_document` chunks come first."""

    method: Literal["spread"]
    per_document: int = Field(default=1, ge=1)

    def rank(self, search: Search, k: int) -> Ranking:
        """Rank the first `per_document` chunks of each document before its other chunks."""
        wanted = 2 * self.k
        found = reciprocal_rank_fusion([search.nearest(wanted), search.by_terms(wanted)])
        taken: Counter[str] = Counter()
        order: tuple[list[int], list[int]] = [], []
        documents = search.read(found, "document_id")
        for (position, _), document_id in zip(found, documents, strict=True):
            order[taken[document_id] >= self.per_document].append(position)
            taken[document_id] += 1
        return [(position, 1 / place) for place, position in enumerate(order[0] + order[1], 1)]


class SharedWordsReranker(LocalReranker):
    """Puts passages first that have many of the query's words."""

    prices: ClassVar[Mapping[str, Any]] = {"date": "2026-01-01", "models": {"*": {"input": 0.1}}}
    method: Literal["shared_words"]

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the share of the query's words that each passage has."""
        asked = _words(query)
        return [len(asked & _words(passage)) / max(len(asked), 1) for passage in passages]


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


class SharedWordsContext(ContextJudge):
    """A context is of use where it shares words with the answer, the more the better."""

    judge: Literal["shared_words"]

    def judge_contexts(
        self, answered: Sequence[Answered], models: Models
    ) -> Sequence[ContextJudgement | ProviderError]:
        """Judge by the share of the query's words that each context has."""
        judged = []
        for query, contexts, answer in ((one.query, one.contexts, one.answer) for one in answered):
            asked, said = _words(query.query), _words(answer.text)
            shares = [len(asked & _words(c.text)) / max(len(asked), 1) for c in contexts]
            levels: list[Level] = ["high" if s > 0.5 else "low" if s else "none" for s in shares]
            used = [len(said & _words(c.text)) > 1 for c in contexts]
            judged.append(ContextJudgement(tuple(map(Judged, levels, used))))
        return judged


class WholeChunk(AnswerMethod):
    """The best chunk, if it shares `words` words with the question."""

    method: Literal["whole_chunk"]
    words: int = Field(default=1, ge=0)

    def answer(
        self, found: Sequence[SearchResult], models: Models
    ) -> Sequence[Answer | ProviderError]:
        """Return the best chunk, whole and cited."""
        made = []
        for one in found:
            answer = Answer("No chunk answers this.", answered=False)
            for best in one.chunks[:1]:
                if len(_words(one.search_text) & _words(best.text)) >= self.words:
                    place = best.chunk_id, best.document_id, best.start, best.end, best.text
                    answer = Answer(f"{best.text} [1]", True, (Citation(1, *place),))
            made.append(answer)
        return made


class CapitalEntities(EntityExtractor):
    """Words in capitals are organizations, numbers amounts of money."""

    extractor: Literal["capitals"]

    def extract(
        self, texts: Sequence[str], models: Models
    ) -> Sequence[Sequence[Entity] | ProviderError]:
        """Find both in each text."""
        kinds = {"ORGANIZATION": re.compile(r"\b[A-Z]\w+"), "MONEY": re.compile(r"\b\d[\d.,]*\b")}
        return [
            [Entity(kind, found) for kind, form in kinds.items() for found in form.findall(text)]
            for text in texts
        ]


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


largest = typer.Typer()


@largest.command()
def documents(corpus: CorpusArgument = None, number: int = 3) -> None:
    """Print the longest documents of the release."""
    released = open_corpus(corpus)
    lengths = {name: len(released.document(name).text) for name in released.document_ids()}
    for name in sorted(lengths, key=lambda name: -lengths[name])[:number]:
        typer.echo(f"{lengths[name]:>9,} {name}")
