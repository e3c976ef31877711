"""A run -> an answer with citations to each query."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag_pipeline.answering import (
    DEFAULT,
    NEUTRAL_QUERIES,
    Calibration,
    Formed,
    ToAnswer,
    detect,
    distinct,
    form_answers,
    passages_read,
    passages_wanted,
    sentence_vectors,
)
from rag_pipeline.answering.intent import Kind
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import advance
from rag_pipeline.config import AnswerMethod, Configuration, ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Query, ScoredChunk
from rag_pipeline.errors import ProviderError, TextsFailedError
from rag_pipeline.evaluation.quality.calibration import calibrated
from rag_pipeline.evaluation.results import ANSWERS, read_as
from rag_pipeline.evaluation.runs import (
    load_asks,
    load_queries,
    load_ranked,
    load_unsearched,
    retrieve_again,
    searched_index,
)
from rag_pipeline.search.index import Index
from rag_pipeline.search.retrieval import Retrieved, with_tokens
from rag_pipeline.workspace import Workspace


def update_answers(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Answer every query from the run's first chunks; return the note.

    `missing` counts failed answers, `unanswered` answers without a result, `flagged` answers with
    a wrong citation. `calibration` is fitted to the run.
    """
    settings = workspace.config.evaluation.answers
    source = ANSWERS.made_from(workspace, configuration.name)
    queries = load_queries(workspace)
    kinds = [detect(query.query).kind for query in queries]
    asked_of = list(zip(queries, kinds, strict=True))
    wanted = [passages_read(query.query, kind, settings) for query, kind in asked_of]
    first = [passages_wanted(query.query, kind, settings) for query, kind in asked_of]
    ranked = load_ranked(workspace, configuration.name, max(wanted, default=0))
    passages = [distinct(ranked[q.query_id][:k]) for q, k in zip(queries, wanted, strict=True)]
    counts = CallCounts()
    made: Sequence[Formed | ProviderError]
    calibration = calibrated(workspace, configuration, queries, ranked, counts)
    # The query without the name of a document: its chunks are chosen already.
    asks = load_asks(workspace, configuration.name)
    if isinstance(settings, AnswerMethod):
        questions = [
            ToAnswer(asks.get(q.query_id, q.query), kind, own, query=q.query)
            for q, kind, own in zip(queries, kinds, passages, strict=True)
        ]
        made = settings.answer(questions, workspace.models(counts))
    else:
        assert isinstance(settings, ExtractiveAnswers)
        index = searched_index(workspace, configuration)
        asked = [
            _asked(asks.get(q.query_id, q.query), kind, own, index, q.query, at_first)
            for q, kind, own, at_first in zip(queries, kinds, passages, first, strict=True)
        ]
        made = _extracted(workspace, configuration, asked, settings, counts, index, calibration)
    advance("queries", len(queries))
    unsearched = load_unsearched(workspace, configuration.name)
    answers = [
        ProviderError("its query was not searched: see the retrieval run")
        if query.query_id in unsearched
        else one.answer
        if isinstance(one, Formed)
        else one
        for query, one in zip(queries, made, strict=True)
    ]
    return save_answers(workspace, configuration, source, queries, answers, counts, calibration)


def save_answers(
    workspace: Workspace,
    configuration: Configuration,
    source: str,
    queries: Sequence[Query],
    made: Sequence[Answer | ProviderError],
    counts: CallCounts | None = None,
    calibration: Calibration | None = None,
) -> dict[str, Any]:
    """Write an answer or a failure per query; return the note. `source` is from `made_from`."""
    answers = [answer for answer in made if isinstance(answer, Answer)]
    packed = [json.dumps(asdict(a)) if isinstance(a, Answer) else None for a in made]
    errors = [str(a) if isinstance(a, ProviderError) else None for a in made]
    failures = [error for error in errors if error is not None]
    table = ANSWERS.table(
        {"query_id": [q.query_id for q in queries], "answer": packed, "error": errors}
    )
    more = {
        "queries": len(queries),
        "missing": len(failures),
        "unanswered": sum(not answer.answered for answer in answers),
        "flagged": sum(bool(answer.problems) for answer in answers),
        "calibration": asdict(calibration or DEFAULT),
    }
    counts = counts or CallCounts()
    return ANSWERS.keep(workspace, configuration.name, source, table, counts, failures, more)


def load_answers(workspace: Workspace, configuration: str) -> Mapping[str, Answer | None]:
    """Return the answers by query id, None for a failed one; {} before the first run."""
    return {
        row["query_id"]: read_as(Answer, json.loads(row["answer"])) if row["answer"] else None
        for row in ANSWERS.rows(workspace, configuration)
    }


def _extracted(
    workspace: Workspace,
    configuration: Configuration,
    asked: Sequence[ToAnswer],
    settings: ExtractiveAnswers,
    counts: CallCounts,
    index: Index | None,
    calibration: Calibration,
) -> list[Formed]:
    """Answer from the passages; retry definitions with the passages of neutral queries."""
    made = form_answers(asked, settings, sentence_vectors, calibration)
    for neutral in NEUTRAL_QUERIES:
        open_ = [
            n
            for n, formed in enumerate(made)
            if asked[n].kind == "definition" and not formed.answer.answered
        ]
        if not open_:
            break
        try:
            found = distinct(retrieve_again(workspace, configuration, neutral, counts))
        except TextsFailedError:
            continue
        more = found[: settings.contexts]
        again = [_asked(asked[n].ask, asked[n].kind, more, index, asked[n].query) for n in open_]
        formed_again = form_answers(again, settings, sentence_vectors, calibration)
        for n, formed in zip(open_, formed_again, strict=True):
            if formed.answer.answered:
                made[n] = formed
    return made


def _asked(
    ask: str,
    kind: Kind,
    chunks: Sequence[ScoredChunk],
    index: Index | None,
    query: str,
    first: int = 0,
) -> ToAnswer:
    """Return a question with its chunks' token weights, as a search of the release does."""
    if index is None:
        return ToAnswer(ask, kind, chunks, query=query, first=first)
    found = with_tokens(index, Retrieved(list(chunks), ask))
    return ToAnswer(ask, kind, found.chunks, found.token_weights, query, first)


def load_calibration(workspace: Workspace, configuration: str) -> Calibration:
    """Return the calibration of the last run of a configuration, else the default."""
    record = ANSWERS.note(workspace, configuration).get("calibration")
    return Calibration(**{**record, "weights": tuple(record["weights"])}) if record else DEFAULT
