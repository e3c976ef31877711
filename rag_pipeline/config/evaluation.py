"""The `evaluation` section of a corpus file: judges, answer methods and thresholds."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.plugins import (
    ANSWER_METHODS,
    ANSWER_SCORES,
    CONTEXT_JUDGES,
    ENTITY_EXTRACTORS,
    JUDGES,
    VariantsOf,
    load_group,
)
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

# --- relevance_labels ---


class RelevanceSettings(Settings):
    """A way to label the retrieved passages that answer a query."""

    judge: str


class GoldRelevance(RelevanceSettings):
    """A passage is relevant if it overlaps a gold span."""

    judge: Literal["gold"] = "gold"


class RelevanceJudge(RelevanceSettings):
    """A judge that labels each query's first `passages` instead of gold spans."""

    passages: int = Field(default=10, ge=1, le=100)

    @abstractmethod
    def label(
        self, asked: Sequence[tuple[Query, ScoredChunk]], models: Models
    ) -> Sequence[bool | ProviderError]:
        """Return for each query and passage whether it is relevant, or the error."""


RelevanceVariant = Annotated[RelevanceSettings, VariantsOf(JUDGES, "judge")]

# --- answers ---


class AnswerSettings(Settings):
    """A method that makes an answer from the first `contexts` chunks of a query."""

    method: str
    contexts: int = Field(default=5, ge=1, le=50)


class ExtractiveAnswers(AnswerSettings):
    """At most `sentences` verbatim sentences, chosen from `contexts` chunks by late interaction.

    If these chunks hardly match the question, four times as many are read. The kind of the question
    sets the form: quotes, a list, or a table of three times as many chunks. The answer is "nothing
    found" if the chance that the chunks hold the answer is below `confidence`. By default the
    threshold rejects at most the share `error` of the answerable questions.
    """

    code_version = 9
    method: Literal["extractive"] = "extractive"
    sentences: int = Field(default=3, ge=1, le=20)
    confidence: Share | None = None
    error: Share = 0.02


class AnswerMethod(AnswerSettings):
    """A method that answers from the passages alone, instead of verbatim sentences."""

    @abstractmethod
    def answer(
        self, found: Sequence[SearchResult], models: Models
    ) -> Sequence[Answer | ProviderError]:
        """Return the answer to each query from all of its `chunks`, or the error."""


Answers = Annotated[AnswerSettings, VariantsOf(ANSWER_METHODS, "method")]

# --- entity_scores ---


class EntityExtractor(Settings):
    """A method that reads facts from an answer; texts match from `similarity` percent on."""

    extractor: str
    similarity: float = Field(default=88.0, ge=50.0, le=100.0)

    @abstractmethod
    def extract(
        self, texts: Sequence[str], models: Models
    ) -> Sequence[Sequence[Entity] | ProviderError]:
        """Return the facts of each text, or the error."""


Entities = Annotated[EntityExtractor, VariantsOf(ENTITY_EXTRACTORS, "extractor")]

# --- context_scores ---


class ContextJudge(Settings):
    """A judge of contexts, and the rates in the formulas of their metrics."""

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
        """Return the judgement of each query's contexts, best first, or the error."""

    @model_validator(mode="after")
    def _levels_descend(self) -> "ContextJudge":
        if not self.high >= self.medium >= self.low:
            raise ValueError(
                f"high {self.high}, medium {self.medium} and low {self.low} must descend"
            )
        return self


Context = Annotated[ContextJudge, VariantsOf(CONTEXT_JUDGES, "judge")]

# --- further scores of answers ---

AnswerScoreSettings = Annotated[Settings, VariantsOf(ANSWER_SCORES, "score")]

# --- health ---


class HealthThresholds(Settings):
    """Thresholds of a configuration's health; null is no threshold.

    `drop` is the largest accepted fall of the average relevance below the served release.
    """

    relevance: Share | None = 0.6
    usage: Share | None = 0.4
    missing: Share | None = 0.3
    ranking: Share | None = None
    optimal: Share | None = None
    drop: Share | None = 0.05


class Evaluation(Settings):
    """Judges, answer methods and thresholds; `scores` lists further scores of the answers."""

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
        """Return the judge of passages, None if gold spans label them."""
        return self.relevance if isinstance(self.relevance, RelevanceJudge) else None
