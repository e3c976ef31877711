"""What there is to do: every asset partition in the order of the flow, and whether it is stale."""

from dataclasses import dataclass

from rag_pipeline import release
from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation import quality, runs
from rag_pipeline.evaluation.leaderboard import leaderboard_is_current
from rag_pipeline.evaluation.scores import SCORE_ASSETS
from rag_pipeline.indexing import (
    SHARDED_ASSETS,
    count_calls,
    open_stage,
    plan,
    plan_documents,
    plan_lexical,
)
from rag_pipeline.workspace import Workspace

ANSWER_ASSETS = ("answers", "entity_scores", "context_scores")
"""What is made of a run together: each reads little, and a step of its own costs more than that."""


@dataclass(frozen=True, slots=True)
class Step:
    """One partition of one asset; `partition` is None for an asset without partitions."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return f"{self.asset} {self.partition}" if self.partition else self.asset


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What materializing a step would do now. `calls` is None where that is not known yet."""

    step: Step
    stale: int = 0
    orphaned: int = 0
    waiting: int = 0
    current: int = 0
    calls: int | None = 0
    must_run: bool = False


def steps(config: CorpusConfig, configuration: str | None = None) -> list[Step]:
    """Return every step of the corpus, or of one configuration, in the order of the flow."""
    if configuration is None:
        chosen = list(config.all_configurations.values())
    else:
        chosen = [config.configuration(configuration)]
    chunkings = list(dict.fromkeys(c.chunking for c in chosen))
    contexts = list(dict.fromkeys(c.context_key for c in chosen))
    lexical = list(dict.fromkeys(c.context_key for c in chosen if config.engine(c)))
    vectors = list(dict.fromkeys(c.vector_key for c in chosen))
    return [
        Step("documents"),
        Step("queries"),
        *(Step("chunks", key) for key in chunkings),
        *(Step("contextualized_chunks", key) for key in contexts),
        *(Step("lexical_index", key) for key in lexical),
        *(Step("vector_index", key) for key in vectors),
        *(Step("retrieval_run", c.name) for c in chosen),
        *(Step("relevance_labels", c.name) for c in chosen if judges_relevance(config)),
        *(Step("answer_presence", c.name) for c in chosen),
        *(Step(asset, c.name) for asset in ANSWER_ASSETS for c in chosen),
        Step("leaderboard"),
        Step("release"),
    ]


def judges_relevance(config: CorpusConfig) -> bool:
    """Return whether a chat model labels passages, rather than gold spans."""
    return config.evaluation.relevance.judge == "llm"


def is_incomplete(workspace: Workspace, step: Step) -> bool:
    """Return whether all that a step lacks is judgements that failed.

    What follows can go on without them; another run asks for them again.
    """
    return step.asset in quality.QUALITY_ASSETS and quality.is_incomplete(
        workspace, step.asset, step.partition or ""
    )


def upstream(config: CorpusConfig, step: Step) -> list[Step]:
    """Return the steps that a step reads from."""
    key = step.partition or ""
    match step.asset:
        case "documents":
            return []
        case "queries" | "chunks":
            return [Step("documents")]
        case "contextualized_chunks":
            return [Step("chunks", key.split(".")[0])]
        case "lexical_index":
            return [Step("contextualized_chunks", key)]
        case "vector_index":
            return [Step("contextualized_chunks", key.rpartition(".")[0])]
        case "retrieval_run":
            configuration = config.configuration(key)
            lexical = [Step("lexical_index", configuration.context_key)]
            return [
                Step("vector_index", configuration.vector_key),
                *(lexical if config.engine(configuration) else []),
                Step("queries"),
            ]
        case "relevance_labels" | "answers":
            return [Step("retrieval_run", key)]
        case "answer_presence":
            labels = [Step("relevance_labels", key)] if judges_relevance(config) else []
            return [Step("retrieval_run", key), *labels]
        case "entity_scores":
            return [Step("answers", key)]
        case "context_scores":
            return [Step("retrieval_run", key), Step("answers", key)]
        case "leaderboard":
            names = config.all_configurations
            return [Step(asset, name) for asset in SCORE_ASSETS for name in names]
        case "release":
            return [Step("leaderboard")]
    raise ValueError(f"no asset {step.asset!r}")


def plan_step(workspace: Workspace, step: Step, count: bool = False) -> StepPlan:
    """Compare one step with what it reads from, as that is now.

    With `count`, also count the texts that building the stale vectors would send to a model.
    """
    key = step.partition or ""
    if step.asset == "documents":
        todo = plan_documents(workspace)
        return StepPlan(
            step, len(todo.stale), len(todo.orphaned), 0, todo.current, 0, not todo.is_current
        )
    if step.asset in SHARDED_ASSETS:
        todo = plan(open_stage(workspace, step.asset, key))
        calls: int | None = 0
        if step.asset == "vector_index" and count:
            calls = None if todo.waiting else count_calls(workspace, key, todo.stale)
        return StepPlan(
            step,
            len(todo.stale),
            len(todo.orphaned),
            todo.waiting,
            todo.current,
            calls,
            not todo.is_current,
        )
    return StepPlan(step, must_run=not _is_current(workspace, step))


def _is_current(workspace: Workspace, step: Step) -> bool:
    key = step.partition or ""
    match step.asset:
        case "queries":
            return runs.queries_are_current(workspace)
        case "lexical_index":
            return not plan_lexical(workspace, key)
        case "retrieval_run":
            return runs.run_is_current(workspace, workspace.config.configuration(key))
        case "answer_presence":
            return runs.scores_are_current(workspace, workspace.config.configuration(key))
        case "relevance_labels" | "answers" | "entity_scores" | "context_scores":
            return quality.is_current(workspace, step.asset, key)
        case "leaderboard":
            return leaderboard_is_current(workspace)
        case "release":
            try:
                return release.is_current(workspace)
            except StoreError:
                return False
    raise ValueError(f"no asset {step.asset!r}")
