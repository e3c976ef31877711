"""Define the `evaluation` section of a corpus file: judges, answer methods and thresholds."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import Settings, Share
from rag_pipeline.datamodels import (
    Answer,
    Answered,
    ContextJudgement,
    Entity,
    Query,
    ScoredChunk,
    SearchResult,
)
from rag_pipeline.errors import ProviderError
from rag_pipeline.imports import (
    ANSWER_METHODS,
    ANSWER_SCORES,
    CONTEXT_JUDGES,
    ENTITY_EXTRACTORS,
    JUDGES,
    load_group,
)


class RelevanceSettings(Settings):
    """The settings of a judge, which labels the passages that answer a query."""

    judge: str


class GoldRelevance(RelevanceSettings):
    """The judge that labels a passage as relevant if it overlaps a gold span."""

    judge: Literal["gold"] = "gold"


class RelevanceJudge(RelevanceSettings):
    """A judge that labels the first `passages` passages of each query without gold spans."""

    passages: int = Field(default=10, ge=1, le=100)

    @abstractmethod
    def label(
        self, asked: Sequence[tuple[Query, ScoredChunk]], models: Models
    ) -> Sequence[bool | ProviderError]:
        """Return for each pair of query and passage whether it is relevant, or the error."""


RelevanceVariant = Annotated[RelevanceSettings, VariantsOf(JUDGES, "judge", default="gold")]


class AnswerSettings(Settings):
    """The settings of a method that answers from the first `contexts` chunks of a query."""

    method: str
    contexts: int = Field(default=5, ge=1, le=50)


class ExtractiveAnswers(AnswerSettings):
    """Answers of at most `sentences` verbatim sentences from the first `contexts` chunks.

    If these chunks hardly match the question, four times as many are read. The intent of the
    question sets the form: quotes, a list or a table. Lists and tables use three times as many
    chunks. If the probability that the chunks hold the answer is below `confidence`, the answer is
    "nothing found". The default of `confidence` rejects about the share `error` (0 to 1) of the
    answerable questions.
    """

    code_version = 62
    method: Literal["extractive"] = "extractive"
    sentences: int = Field(default=3, ge=1, le=20)
    confidence: Share | None = None
    error: Share = 0.02


class AnswerMethod(AnswerSettings):
    """A method that answers in new words from the passages, for example with a chat model."""

    @abstractmethod
    def answer(
        self, found: Sequence[SearchResult], models: Models
    ) -> Sequence[Answer | ProviderError]:
        """Return for each query an answer from all of its `chunks`, or the error."""


Answers = Annotated[AnswerSettings, VariantsOf(ANSWER_METHODS, "method", default="extractive")]


class EntityExtractor(Settings):
    """A method that extracts facts. Two texts match if they are at least `similarity` % similar."""

    extractor: str
    similarity: float = Field(default=88.0, ge=50.0, le=100.0)

    @abstractmethod
    def extract(
        self, texts: Sequence[str], models: Models
    ) -> Sequence[Sequence[Entity] | ProviderError]:
        """Return the facts of each text, or the error."""


Entities = Annotated[EntityExtractor, VariantsOf(ENTITY_EXTRACTORS, "extractor", default="rules")]


class ContextJudge(Settings):
    """A judge of the contexts of answers, with the weights and penalties of the metrics."""

    judge: str
    contexts: int = Field(default=5, ge=1, le=50)
    high: Share = 1.0
    medium: Share = 0.7
    low: Share = 0.3
    unused_penalty: Share = 0.1
    missing_penalty: Share = 0.15
    most_missing_penalty: Share = 0.5
    ranking_penalty: Share = 0.05
    ranking_free_places: int = Field(default=3, ge=0)
    most_ranking_penalty: Share = 0.3
    scale: float = Field(default=1.0, gt=0.0)

    @abstractmethod
    def judge_contexts(
        self, answered: Sequence[Answered], models: Models
    ) -> Sequence[ContextJudgement | ProviderError]:
        """Return the judgement of each query's contexts, or the judge's error."""

    @model_validator(mode="after")
    def _levels_descend(self) -> "ContextJudge":
        if not self.high >= self.medium >= self.low:
            levels = f"high {self.high}, medium {self.medium}, low {self.low}"
            raise ValueError(f"{levels}: each level must be at most the level before it")
        return self


Context = Annotated[ContextJudge, VariantsOf(CONTEXT_JUDGES, "judge", default="rules")]

AnswerScoreSettings = Annotated[Settings, VariantsOf(ANSWER_SCORES, "score")]
"""Settings of an additional score of answers."""


class HealthThresholds(Settings):
    """The thresholds for a configuration's health. null means no threshold.

    `drop` is the largest accepted decrease of the mean relevance (0 to 1) since the served release.
    """

    relevance: Share | None = 0.6
    usage: Share | None = 0.4
    missing: Share | None = 0.3
    ranking: Share | None = None
    optimal: Share | None = None
    drop: Share | None = 0.05


class Evaluation(Settings):
    """The settings of judges, answer methods, thresholds and additional `scores` of answers."""

    model_config = ConfigDict(defer_build=True)

    relevance: RelevanceVariant = GoldRelevance()
    answers: Answers = ExtractiveAnswers()
    entities: Entities = Field(
        default_factory=lambda: load_group(ENTITY_EXTRACTORS)["rules"](extractor="rules")
    )
    context: Context = Field(
        default_factory=lambda: load_group(CONTEXT_JUDGES)["rules"](judge="rules")
    )
    health: HealthThresholds = HealthThresholds()
    scores: tuple[AnswerScoreSettings, ...] = ()

    @property
    def judge(self) -> RelevanceJudge | None:
        """Return the judge of passages, or None if gold spans label passages."""
        return self.relevance if isinstance(self.relevance, RelevanceJudge) else None
