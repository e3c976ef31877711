"""Plan each step of a run with its documents, calls and cost, and check the corpus's budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rag_pipeline.calls.costs import ESTIMATE_ERROR, ChargedTokens
from rag_pipeline.config import ChatSettings, EmbeddingSettings, PassageReranker, RemoteModel
from rag_pipeline.errors import BudgetError, UnexpectedError, UnknownReplyError, blaming
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.pipeline.dry_run.priced_models import (
    PricedModel,
    asks_a_chat,
    paid_models,
    paid_reranker,
    pays,
    price,
    priced_model,
)
from rag_pipeline.pipeline.dry_run.queries import DryQueries, keep_queries
from rag_pipeline.pipeline.dry_run.tables import QUERIES, DryResult, build_tables, needed_by_table
from rag_pipeline.pipeline.dry_run.workspace import DryWorkspace
from rag_pipeline.pipeline.planning import (
    DOCUMENTS,
    NOTHING_PENDING,
    Step,
    is_stale,
    pending_documents,
    plan_step,
    steps,
    upstream,
    why,
)
from rag_pipeline.search.vector_index import indexed_text
from rag_pipeline.workspace import Workspace

_SAMPLE = 40
"""Number of embedded texts that measure the speed of a model. Their vectors are kept."""

RERANKING = "reranking"
"""The name of a run's reranking. It has its own row in plans because it calls another model."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """The work of a run in one step.

    `stale`, `orphaned` and `current` count documents. `chunks` counts chunks to write, and `calls`
    counts texts to embed. A count is None if it depends on unloaded documents or missing replies.
    `exact` is False if a count is scaled or estimated.
    """

    step: Step
    runs: bool
    stale: int = 0
    orphaned: int = 0
    current: int = 0
    chunks: int | None = 0
    calls: int | None = 0
    exact: bool = True
    asks: int | None = 0
    """Number of prompts for a chat model and of inputs for a reranker, or None if unknown."""
    model: str = ""
    """The names of the paid models, or "" if all calls are free."""
    tokens: ChargedTokens = field(default_factory=ChargedTokens)
    usd: float | None = 0.0
    """Expected cost, or None if a model's price or the calls are unknown."""
    why: str = ""
    """The reason for running the step again. Empty if it is new, or if only documents changed."""
    error: UnexpectedError | None = None
    """The exception that ended the dry run, or None. After an exception, the counts are unknown."""
    sample: tuple[str, ...] = ()
    """Some of the texts for a local model. `measure` embeds them to measure the model's speed."""
    seconds: float | None = None
    """The expected duration in seconds, or None if it is unknown (see `measure`)."""


def plan_run(workspace: Workspace, wanted: Sequence[Step] | None = None) -> list[PlannedStep]:
    """Return the work of a run, step by step. Call no remote model, and write nothing.

    `wanted` lists the steps of the run in the order of the data flow, by default all steps of the
    corpus. The current results of all other steps are read.
    """
    chosen = steps(workspace.config) if wanted is None else wanted
    with TemporaryDirectory() as folder:
        return _plan_run(workspace, chosen, Path(folder))


def _plan_run(workspace: Workspace, chosen: Sequence[Step], folder: Path) -> list[PlannedStep]:
    config, dry = workspace.config, DryWorkspace(workspace)
    pending = pending_documents(workspace, chosen)
    tables: dict[Step, DryResult] = {}
    for chunking in dict.fromkeys(s.key(config).chunking for s in pending if s.row.open_partition):
        try:
            tables |= build_tables(dry, chunking, pending)
        except UnexpectedError as error:
            failed = (s for s in pending if s.key(config).chunking == chunking)
            tables |= dict.fromkeys(failed, DryResult.of_error(error))
    if QUERIES in chosen:
        keep_queries(dry, pending.get(DOCUMENTS, NOTHING_PENDING))
    queries = DryQueries(dry, chosen, load_queries(dry), folder, tables)
    answered: dict[bytes, bool] = {}
    found: dict[Step, PlannedStep] = {}
    for step in chosen:
        before = [s for s in upstream(config, step) if s in chosen]
        running = [s for s in before if found[s].runs]
        result, reranking, runs = tables.get(step, DryResult()), None, True
        try:
            with blaming(str(step)):
                runs = is_stale(workspace, step, pending, set(running))
                if runs and step.asset == "retrieval_run":
                    stays = not any(s.asset != "queries" for s in running)
                    result, reranking = queries.search(step, stays)
                elif runs and step.row.runs_dry:
                    result = queries.judge(step)
        except UnexpectedError as error:
            result = DryResult.of_error(error)
        models = paid_models(workspace, step) if runs else []
        made = _planned(dry, step, runs, result, models, asks_a_chat(config, step), answered)
        if step in pending:
            own = pending[step]
            found[step] = replace(
                made,
                stale=len(own.stale),
                orphaned=len(own.orphaned),
                current=own.current,
                why=own.why,
                sample=_sample(dry, step, result),
            )
        else:
            found[step] = replace(made, why=why(workspace, step, running) if runs else "")
        if reranking is not None:
            part = Step(RERANKING, step.partition)
            reranker = paid_reranker(workspace, config.configuration(step.partition or ""))
            models = [reranker] if reranker else []
            found[part] = _planned(dry, part, True, reranking, models, True, answered)
    return list(found.values())


def _planned(
    dry: DryWorkspace,
    step: Step,
    runs: bool,
    result: DryResult,
    models: Sequence[PricedModel],
    is_chat: bool,
    answered: dict[bytes, bool],
) -> PlannedStep:
    """Return the plan of a step. `answered` has the calls of earlier steps, with True if exact."""
    new = [key for key in result.calls if key not in answered]
    certain = all(answered.get(key, True) for key in result.calls)
    exact = result.exact and result.scale == 1.0 and certain
    answered.update(dict.fromkeys(new, exact))
    first = models[0] if models else None
    texts = prompts = 0
    paid: dict[PricedModel | None, ChargedTokens] = {}
    for key in new:
        asked, model = dry.cache.asked.get(key), first
        if isinstance(asked, ChatSettings | EmbeddingSettings | PassageReranker):
            model = priced_model(dry, asked)
        paid[model] = paid.get(model, ChargedTokens()) + result.calls[key]
        is_prompt = is_chat if asked is None else not isinstance(asked, EmbeddingSettings)
        texts, prompts = texts + (not is_prompt), prompts + is_prompt
    prices = [price(dry, model, own * result.scale) for model, own in paid.items()]
    known = [usd for usd in prices if usd is not None]
    usd = sum(known) if len(known) == len(prices) else None
    unknown = not result.calls_known
    return PlannedStep(
        step,
        runs,
        chunks=round(result.chunks * result.scale) if result.chunks_known else None,
        calls=None if unknown and not is_chat else round(texts * result.scale),
        exact=exact,
        asks=None if unknown and is_chat else round(prompts * result.scale),
        model=" + ".join(str(p) for p in dict.fromkeys([*models, *paid]) if p is not None),
        tokens=sum(paid.values(), ChargedTokens()) * result.scale,
        usd=price(dry, first, None) if unknown else usd,
        error=result.error,
    )


def _sample(dry: DryWorkspace, step: Step, result: DryResult) -> tuple[str, ...]:
    """Return some evenly spread texts of new chunks without a vector, or () for a remote model."""
    rows = [row for chunks in result.change.chunks.values() for row in chunks]
    name = step.key(dry.config).embedding if rows else ""
    if not rows or isinstance(dry.config.embeddings[name], RemoteModel):
        return ()
    dry.cache.begin()
    found = []
    for row in rows[:: max(1, len(rows) // (2 * _SAMPLE))]:
        # Only an exact plan knows the contexts.
        text = indexed_text(row["context"] if result.exact else None, row["text"])
        try:
            dry.embed(name)([text])
        except UnknownReplyError:
            found.append(text)
    return tuple(found[:_SAMPLE])


def needed_calls(workspace: Workspace) -> Iterator[bytes]:
    """Yield the keys of the answered calls that a complete rebuild needs.

    A key may occur several times. A rebuild makes the current rows of the tables, and searches,
    answers and judges every query.
    """
    config = workspace.config
    dry = DryWorkspace(workspace)
    every = steps(config)
    for step in every:
        if step.row.open_partition and step.row.models(config, step.key(config)):
            yield from needed_by_table(dry, step)
    with TemporaryDirectory() as folder:
        queries = DryQueries(dry, every, load_queries(dry), Path(folder))
        for step in every:
            if step.asset == "retrieval_run":
                before = (s for s in upstream(config, step) if s.asset != "queries")
                queries.search(step, not any(plan_step(workspace, s).must_run for s in before))
                yield from dry.cache.known_keys
            elif step.row.runs_dry:
                queries.judge(step)
                yield from dry.cache.known_keys


# --- the budget ---

ERROR = f"± {ESTIMATE_ERROR:.0%}".replace("%", " %")
"""Relative error of an estimate, as text for messages."""


def is_known(planned: Sequence[PlannedStep]) -> bool:
    """Return whether the number of calls of every paid model is known."""
    return all(p.calls is not None and p.asks is not None for p in planned if p.model)


def require_budget(workspace: Workspace, planned: Sequence[PlannedStep]) -> None:
    """Raise BudgetError if the planned steps exceed the budget or have an unknown price."""
    budget = workspace.config.budget_usd
    if budget is None:
        return
    expected = sum(p.usd or 0.0 for p in planned)
    spent = workspace.ledger.spent()
    unpriced = sorted({p.model for p in planned if p.model and p.usd is None and is_known([p])})
    if unpriced:
        raise BudgetError(
            f"the price of {', '.join(unpriced)} is unknown, so budget_usd {budget:g} can't be "
            f"held; set the model's `price` in the corpus file (USD per million tokens: "
            f"`price: {{input: …, output: …}}`), or remove the budget"
        )
    # Estimates are uncertain, and the money for a half-finished run is lost.
    most = sum((p.usd or 0.0) * (1 if p.exact else 1 + ESTIMATE_ERROR) for p in planned)
    if expected and spent + most > budget:
        raise BudgetError(
            f"a run would cost about {expected:.4f} USD ({ERROR}) and {spent:.4f} are spent: up to "
            f"{spent + most:.4f}, more than budget_usd {budget:g}; raise the budget, or remove "
            f"configurations"
        )


@dataclass(slots=True)
class RunPlan:
    """The ordered steps of a run, their estimated cost, and their results so far."""

    workspace: Workspace
    steps: Sequence[Step]
    always: bool = False
    """Whether to estimate the cost even without a budget, because the caller shows the cost."""
    pays: bool = field(init=False)
    planned: Sequence[PlannedStep] = field(init=False, default=())
    made: set[Step] = field(init=False, default_factory=set)
    failed: dict[Step, Step] = field(init=False, default_factory=dict)
    """The steps that could not be made, each with the failed step that caused this."""
    _refusal: BudgetError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.pays = any(pays(self.workspace, step) for step in self.steps)

    def estimate(self) -> None:
        """Estimate the cost of the run if it is needed and not yet known.

        The cost is needed if a step calls a paid model, and if the corpus has a budget or `always`
        is True. Raise BudgetError if the cost exceeds the budget. Later calls raise the same error.
        """
        if self._refusal is not None:
            raise self._refusal
        wanted = self.always or self.workspace.config.budget_usd is not None
        if not self.pays or not wanted:
            return
        if self.planned and is_known(self.planned) and not self.planned[0].stale:
            return
        self.planned = plan_run(self.workspace, self.steps)
        try:
            require_budget(self.workspace, self.planned)
        except BudgetError as error:
            self._refusal = error
            raise
