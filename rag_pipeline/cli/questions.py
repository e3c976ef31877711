"""What models would be asked about each query: to rerank, judge and answer it.

The prompts are made as the steps make them, from the last run of a configuration, so that what was
answered before is known. Before its first run they are made of chunks of the usual length, as many
as may be shown: that is the most that it can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from rag_pipeline.answering import write_answers
from rag_pipeline.calls import CallCache, call_key
from rag_pipeline.calls.costs import USUAL_OUTPUT, Tokens, estimate_tokens
from rag_pipeline.config import (
    ChatAnswers,
    ChatContext,
    ChatEntities,
    ChatModel,
    Configuration,
    CorpusConfig,
    LLMReranker,
    PassageReranker,
)
from rag_pipeline.datamodels import Answer, Query, ScoredChunk
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation import runs
from rag_pipeline.evaluation.context_quality import judge_with_llm
from rag_pipeline.evaluation.entities import extract_with_llm
from rag_pipeline.evaluation.llm_relevance import ChatRelevance, judge_passages
from rag_pipeline.evaluation.quality import load_answers
from rag_pipeline.models.chat import Prompt, Reply, expected_tokens, known_replies
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.search.reranking import Asked, score_by_chat
from rag_pipeline.workspace import Workspace

_PER_SEARCH = 100
"""Passages that a reranker charges as one search (Cohere)."""
_USUAL_ANSWER = "x" * (4 * USUAL_OUTPUT)

Ask = Callable[[Sequence[Prompt]], list[Reply | ProviderError]]


@dataclass(frozen=True, slots=True)
class Asks:
    """The calls of a step that were not answered before, and whether that is certain."""

    keys: Mapping[bytes, Tokens]
    exact: bool


def recording(chat: ChatModel, cache: CallCache, calls: dict[bytes, Tokens]) -> Ask:
    """Return a function that asks nothing: it tells known replies and notes the other prompts."""

    def ask(prompts: Sequence[Prompt]) -> list[Reply | ProviderError]:
        replies: list[Reply | ProviderError] = []
        seen: set[str] = set()
        for prompt, (key, reply) in zip(prompts, known_replies(prompts, chat, cache), strict=True):
            if reply is None:
                calls[key] = expected_tokens(prompt, chat, prompt.prefix not in seen)
                seen.add(prompt.prefix)
            replies.append(reply or ProviderError("not asked yet"))
        return replies

    return ask


def judge_of(config: CorpusConfig, asset: str) -> ChatModel | None:
    """Return the chat model that a step about queries asks, None if it asks none."""
    evaluation = config.evaluation
    settings = {
        "relevance_labels": evaluation.relevance,
        "answers": evaluation.answers,
        "entity_scores": evaluation.entities,
        "context_scores": evaluation.context,
    }.get(asset)
    chat = getattr(settings, "chat", None)
    return config.chat(chat) if chat else None


def judging(
    workspace: Workspace, step: Step, queries: Sequence[Query], run_stays: bool, answers_stay: bool
) -> Asks | None:
    """Return what a step would ask its chat model; None where chunks are not known yet."""
    evaluation = workspace.config.evaluation
    name = step.partition or ""
    chat = judge_of(workspace.config, step.asset)
    if chat is None:
        return Asks({}, True)
    calls: dict[bytes, Tokens] = {}
    ask = recording(chat, workspace.cache, calls)
    if step.asset == "entity_scores":
        assert isinstance(evaluation.entities, ChatEntities)
        annotated = [query for query in queries if query.entities]
        answers = _answers(workspace, name, annotated)
        extract_with_llm([a.text if a.answered else "" for a in answers], ask)
        return Asks(calls, answers_stay)
    settings = {
        "relevance_labels": evaluation.relevance,
        "answers": evaluation.answers,
        "context_scores": evaluation.context,
    }[step.asset]
    depth = settings.passages if isinstance(settings, ChatRelevance) else settings.contexts  # type: ignore[union-attr]
    ranked = _ranked(workspace, name, queries, depth)
    if ranked is None:
        return None
    if isinstance(settings, ChatRelevance):
        judge_passages(
            [(q.query, c.text) for q, own in zip(queries, ranked, strict=True) for c in own], ask
        )
    elif isinstance(settings, ChatAnswers):
        write_answers([(q.query, c) for q, c in zip(queries, ranked, strict=True)], settings, ask)
    elif isinstance(settings, ChatContext):
        judge_with_llm(queries, ranked, _answers(workspace, name, queries), ask)
        return Asks(calls, run_stays and answers_stay)
    return Asks(calls, run_stays)


def reranking(
    workspace: Workspace, configuration: Configuration, queries: Sequence[Query]
) -> Asks | None:
    """Return what reranking would send at most; None where chunks are not known yet."""
    settings = workspace.config.rerankers[configuration.reranker]
    if not isinstance(settings, PassageReranker):
        return Asks({}, True)
    usual = _usual_length(workspace, configuration, with_context=True)
    if usual is None:
        return None
    ranked = _made_up(queries, settings.candidates, usual)
    asked = [
        Asked(query.query, tuple(chunk.text for chunk in own))
        for query, own in zip(queries, ranked, strict=True)
    ]
    calls: dict[bytes, Tokens] = {}
    if isinstance(settings, LLMReranker):
        score_by_chat(
            asked,
            settings,
            recording(workspace.config.chat(settings.chat), workspace.cache, calls),
        )
        return Asks(calls, False)
    for query, passages in asked:
        key = call_key("expected rerank", configuration.name, query)
        tokens = sum(estimate_tokens(query) + estimate_tokens(p) for p in passages)
        calls[key] = Tokens(tokens, searches=-(-len(passages) // _PER_SEARCH))
    return Asks(calls, False)


def _answers(workspace: Workspace, configuration: str, queries: Sequence[Query]) -> list[Answer]:
    """Return the answers of the last run, or of the usual length."""
    made = load_answers(workspace, configuration)
    return [
        made.get(q.query_id) or Answer(f"{q.query_id} {_USUAL_ANSWER}", answered=True)
        for q in queries
    ]


def _ranked(
    workspace: Workspace, name: str, queries: Sequence[Query], depth: int
) -> list[list[ScoredChunk]] | None:
    """Return the chunks that each query found in the last run, or as many of the usual length."""
    if workspace.store.read_note(runs.run_file(name)):
        found = runs.load_ranked(workspace, name, depth)
        if all(query.query_id in found for query in queries):
            return [found[query.query_id] for query in queries]
    configuration = workspace.config.configuration(name)
    usual = _usual_length(workspace, configuration, with_context=False)
    return None if usual is None else _made_up(queries, depth, usual)


def _made_up(queries: Sequence[Query], depth: int, length: int) -> list[list[ScoredChunk]]:
    return [
        [
            ScoredChunk(f"#{place}", "", 0, 0, f"{query.query_id} {place} ".ljust(length, "x"), 0.0)
            for place in range(depth)
        ]
        for query in queries
    ]


def _usual_length(
    workspace: Workspace, configuration: Configuration, with_context: bool
) -> int | None:
    """Return the mean characters of the chunks as they are now, None if there are none."""
    tables = [workspace.chunks(configuration.chunking)]
    columns = [["text"]]
    if with_context:
        tables.insert(0, workspace.contextualized_chunks(configuration.context_key))
        columns.insert(0, ["context", "text"])
    for table, names in zip(tables, columns, strict=True):
        if not table.exists():
            continue
        rows = characters = 0
        for batch in table.read(names):
            rows += batch.num_rows
            characters += sum(pc.sum(pc.utf8_length(batch.column(n))).as_py() or 0 for n in names)
        if rows:
            return -(-characters // rows)
    return None
