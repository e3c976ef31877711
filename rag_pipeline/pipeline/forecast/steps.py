"""Every step of a run with what it would do, in its order; and the calls that it still needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rag_pipeline.calls.costs import ChargedTokens
from rag_pipeline.config import ChatSettings, EmbeddingSettings, PassageReranker
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.pipeline.forecast.payees import (
    Payee,
    asks_a_chat,
    calls_a_model,
    paid_models,
    paid_reranker,
    payee_of,
    price,
)
from rag_pipeline.pipeline.forecast.queries import QueryRuns, hold_queries
from rag_pipeline.pipeline.forecast.staleness import is_stale
from rag_pipeline.pipeline.forecast.tables import (
    DOCUMENTS,
    NOTHING,
    QUERIES,
    Noted,
    build_tables,
    documents_to_do,
    needed_by_table,
)
from rag_pipeline.pipeline.forecast.workspace import DryWorkspace
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream, why
from rag_pipeline.workspace import Workspace

RERANKING = "reranking"
"""A part of a retrieval run that is forecast by itself, being another model's."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do in one step.

    `stale`, `orphaned` and `current` count documents; `chunks` those that would be written, and
    `calls` the texts that would be sent to a model. The last two are None where they are known
    only once documents are loaded or sentences embedded, and not `exact` where they are scaled or
    rest on a reply that does not exist yet.
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
    """Number of prompts that would be sent to a chat model."""
    model: str = ""
    """The models that would be paid for them, "" where none is."""
    tokens: ChargedTokens = field(default_factory=ChargedTokens)
    usd: float | None = 0.0
    """None where the model's price or the calls are not known."""
    why: str = ""
    """Why it is made anew, "" for what is new or changed itself."""


def forecast(workspace: Workspace, wanted: Sequence[Step] | None = None) -> list[Forecast]:
    """Return what a run would do, step by step in its order; call no model and write nothing.

    `wanted` are the steps that would be run, in the order of the flow; without, all of the corpus.
    What they read of other steps is taken as it is.
    """
    config = workspace.config
    chosen = steps(config) if wanted is None else wanted
    workspace.cache.refresh()
    dry = DryWorkspace(workspace)
    todo = documents_to_do(workspace, chosen)
    tables: dict[Step, Noted] = {}
    for chunking in dict.fromkeys(s.key(config).chunking for s in todo if s.row.stage):
        tables |= build_tables(dry, chunking, todo)
    if QUERIES in chosen:
        hold_queries(dry, todo.get(DOCUMENTS, NOTHING))
    queries = QueryRuns(dry, chosen, load_queries(dry))
    answered: dict[bytes, bool] = {}
    found: dict[Step, Forecast] = {}
    for step in chosen:
        before = [s for s in upstream(config, step) if s in chosen]
        noted, reranking = tables.get(step, Noted()), None
        runs_now = is_stale(workspace, step, todo, {s for s in before if found[s].runs})
        if step in todo:
            documents = todo[step]
            counts = len(documents.pending), len(documents.gone), documents.current
        else:
            counts = 0, 0, 0
            if runs_now and step.asset == "retrieval_run":
                stays = not any(found[s].runs for s in before if s.asset != "queries")
                noted, reranking = queries.search(step, stays)
            elif runs_now and step.row.runs_dry:
                noted = queries.judge(step)
        payees = paid_models(workspace, step) if runs_now else []
        is_chat = asks_a_chat(config, step)
        made = _forecast(dry, step, runs_now, counts, noted, payees, is_chat, answered)
        running = [s for s in before if found[s].runs]
        reason = todo[step].why if step in todo else why(workspace, step, running) * runs_now
        found[step] = replace(made, why=reason)
        if reranking is not None:
            part = Step(RERANKING, step.partition)
            payee = paid_reranker(workspace, config.configuration(step.partition or ""))
            payees, counts = [payee] if payee else [], (0, 0, 0)
            found[part] = _forecast(dry, part, True, counts, reranking, payees, True, answered)
    return list(found.values())


def _forecast(
    dry: DryWorkspace,
    step: Step,
    runs: bool,
    documents: tuple[int, int, int],
    noted: Noted,
    payees: Sequence[Payee],
    is_chat: bool,
    answered: dict[bytes, bool],
) -> Forecast:
    """Return a step's forecast; what a step before it asks is `answered` by then, surely or not.

    Each call is priced at its own model; where that was not noted, at the first of `payees`.
    """
    new = [key for key in noted.calls if key not in answered]
    exact = noted.exact and noted.scale == 1.0 and all(answered.get(k, True) for k in noted.calls)
    answered.update(dict.fromkeys(new, exact))
    first = payees[0] if payees else None
    texts = prompts = 0
    paid: dict[Payee | None, ChargedTokens] = {}
    for key in new:
        model = dry.cache.asked.get(key)
        payee = first
        if isinstance(model, ChatSettings | EmbeddingSettings | PassageReranker):
            payee = payee_of(dry, model)
        paid[payee] = paid.get(payee, ChargedTokens()) + noted.calls[key]
        is_prompt = is_chat if model is None else not isinstance(model, EmbeddingSettings)
        texts, prompts = texts + (not is_prompt), prompts + is_prompt
    tokens = sum(paid.values(), ChargedTokens()) * noted.scale
    prices = [price(dry, payee, own * noted.scale) for payee, own in paid.items()]
    known = [usd for usd in prices if usd is not None]
    usd = sum(known) if len(known) == len(prices) else None
    unknown = not noted.calls_known
    return Forecast(
        step,
        runs,
        *documents,
        chunks=round(noted.chunks * noted.scale) if noted.chunks_known else None,
        calls=None if unknown and not is_chat else round(texts * noted.scale),
        exact=exact,
        asks=None if unknown and is_chat else round(prompts * noted.scale),
        model=" + ".join(str(p) for p in dict.fromkeys([*payees, *paid]) if p is not None),
        tokens=tokens,
        usd=price(dry, first, None) if unknown else usd,
    )


def needed_calls(workspace: Workspace) -> Iterator[bytes]:
    """Yield the keys of the answered calls that building everything anew would look up.

    Some come more than once. Of the tables' rows as they are now: what is stale is made of other
    texts.
    """
    config = workspace.config
    dry = DryWorkspace(workspace)
    for step in steps(config):
        if step.row.stage and calls_a_model(config, step):
            yield from needed_by_table(dry, step)
    every = steps(config)
    queries = QueryRuns(dry, every, load_queries(dry))
    for step in every:
        if step.asset == "retrieval_run":
            before = (s for s in upstream(config, step) if s.asset != "queries")
            queries.search(step, not any(plan_step(workspace, s).must_run for s in before))
            yield from dry.cache.known_keys
        elif step.row.runs_dry:
            queries.judge(step)
            yield from dry.cache.known_keys
