"""Answer each query of a run, with citations."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from rag_pipeline.answering.forms import (
    NEUTRAL_QUERIES,
    contexts_of,
    distinct,
    form_answers,
    most_contexts_of,
)
from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.reading import multilingual, sentence_vectors
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import advance
from rag_pipeline.config import AnswerMethod, Configuration, ExtractiveAnswers
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import Answer, Document, Query, ScoredChunk, SearchResult
from rag_pipeline.errors import ProviderError, TextsFailedError
from rag_pipeline.evaluation.calibration import calibrated, count_tried, with_token_vectors
from rag_pipeline.evaluation.results import ANSWERS, read_as
from rag_pipeline.evaluation.runs import (
    load_queries,
    load_ranked,
    load_search_texts,
    load_unsearched,
    retrieve_again,
    searched_index,
)
from rag_pipeline.indexing import read_documents
from rag_pipeline.workspace import Workspace

_MAX_DOCUMENTS = 64
"""Maximum number of whole documents in memory."""


def update_answers(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Answer every query from the run's first chunks, and return the note of the answers file.

    In the note, `missing` counts failed answers. `unanswered` counts queries that stay unanswered.
    `flagged` counts answers with a wrong citation. `calibration` is fitted to the run.
    """
    reader = None if workspace.is_dry else multilingual()
    with reader.kept_in(workspace.cache) if reader else nullcontext():
        return _update_answers(workspace, configuration)


def _update_answers(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    settings = workspace.config.evaluation.answers
    source = ANSWERS.made_from(workspace, configuration.name)
    queries = load_queries(workspace)
    counts = CallCounts()
    found, ranked = _found(workspace, configuration, queries)
    calibration = DEFAULT
    if not (workspace.is_dry and isinstance(settings, AnswerMethod)):
        calibration = calibrated(workspace, configuration, queries, ranked, counts)
    made: list[Answer | ProviderError]
    if isinstance(settings, AnswerMethod):
        made = [*settings.answer(found, workspace.models(counts))]
        advance("answers and trials", len(queries))
    else:
        assert isinstance(settings, ExtractiveAnswers)
        made = [*_extracted(workspace, configuration, found, settings, counts, calibration)]
    unsearched = load_unsearched(workspace, configuration.name)
    for n, query in enumerate(queries):
        if query.query_id in unsearched:
            made[n] = ProviderError("the query was not searched: see the retrieval run")
    return save_answers(workspace, configuration.name, source, queries, made, counts, calibration)


def count_questions(workspace: Workspace, configuration: Configuration) -> int:
    """Return the number of queries, and of the questions that a calibration probably searches."""
    queries = load_queries(workspace)
    return len(queries) + count_tried(workspace, configuration, queries)


def _found(
    workspace: Workspace, configuration: Configuration, queries: Sequence[Query]
) -> tuple[list[SearchResult], Mapping[str, Sequence[ScoredChunk]]]:
    """Return each query's search result with the chunks for its answer, and the ranked chunks."""
    settings = workspace.config.evaluation.answers
    kinds = [detect(query.query).kind for query in queries]
    asked = list(zip(queries, kinds, strict=True))
    most = [most_contexts_of(query.query, kind, settings) for query, kind in asked]
    ranked = load_ranked(workspace, configuration.name, max(most, default=0))
    # A search text lacks the part that names a document. The chunks are from that document.
    search_texts = load_search_texts(workspace, configuration.name)
    found = [
        SearchResult(
            query=query.query,
            search_text=search_texts.get(query.query_id, ""),
            chunks=distinct(ranked[query.query_id][:k]),
            kind=kind,
            contexts=contexts_of(query.query, kind, settings),
        )
        for (query, kind), k in zip(asked, most, strict=True)
    ]
    return found, ranked


def save_answers(
    workspace: Workspace,
    configuration: str,
    source: str,
    queries: Sequence[Query],
    made: Sequence[Answer | ProviderError],
    counts: CallCounts,
    calibration: Calibration = DEFAULT,
) -> dict[str, Any]:
    """Write the answers file with an answer or a failure per query, and return its note.

    `source` is the value of `ANSWERS.made_from`.
    """
    answers = [answer for answer in made if isinstance(answer, Answer)]
    columns: dict[str, Sequence[Any]] = {
        "query_id": [q.query_id for q in queries],
        "answer": [json.dumps(asdict(a)) if isinstance(a, Answer) else None for a in made],
        "error": [str(a) if isinstance(a, ProviderError) else None for a in made],
    }
    more = {
        "queries": len(queries),
        "missing": len(made) - len(answers),
        "unanswered": sum(not answer.answered for answer in answers),
        "flagged": sum(bool(answer.problems) for answer in answers),
        "calibration": asdict(calibration),
        # A calibration of `confidence.placed` has no `auc`.
        "placed_by": 0 if calibration.auc else calibration.answerable + calibration.unanswerable,
    }
    return ANSWERS.keep(workspace, configuration, source, columns, counts, made, more)


def load_answers(workspace: Workspace, configuration: str) -> Mapping[str, Answer | None]:
    """Return the answers by query id, or {} before the first run. A failed answer is None."""
    return {
        row["query_id"]: read_as(Answer, json.loads(row["answer"])) if row["answer"] else None
        for row in ANSWERS.rows(workspace, configuration)
    }


def _extracted(
    workspace: Workspace,
    configuration: Configuration,
    found: Sequence[SearchResult],
    settings: ExtractiveAnswers,
    counts: CallCounts,
    calibration: Calibration,
) -> list[Answer]:
    """Answer from the passages. If a definition is missing, also search for `NEUTRAL_QUERIES`."""
    index = searched_index(workspace, configuration)
    found = [with_token_vectors(index, one) for one in found]

    @lru_cache(maxsize=_MAX_DOCUMENTS)
    def document(document_id: str) -> Document | None:
        return next(iter(read_documents(workspace, [document_id])), None)

    def search(text: str) -> list[ScoredChunk]:
        with suppress(TextsFailedError):
            return distinct(retrieve_again(workspace, configuration, text, counts))
        return []

    def made_from(asked: Sequence[SearchResult]) -> list[Answer]:
        read = lambda chunk: document(chunk.document_id)  # noqa: E731
        return form_answers(asked, settings, sentence_vectors, calibration, read, search)

    made = []
    for one in found:
        made += made_from([one])
        advance("answers and trials", 1)
    for neutral in NEUTRAL_QUERIES:
        is_open = [
            n
            for n, answer in enumerate(made)
            if found[n].kind == "definition" and not answer.answered
        ]
        if not is_open:
            break
        chunks = search(neutral)[: settings.contexts]
        if not chunks:
            continue
        asked = [
            with_token_vectors(index, replace(found[n], chunks=chunks, contexts=0)) for n in is_open
        ]
        answers = made_from(asked)
        for n, answer in zip(is_open, answers, strict=True):
            if answer.answered:
                made[n] = answer
    return made


def load_calibration(workspace: Workspace, configuration: str) -> Calibration:
    """Return the calibration of a configuration's last run, or else the default."""
    record = ANSWERS.note(workspace, configuration).get("calibration")
    return Calibration(**{**record, "weights": tuple(record["weights"])}) if record else DEFAULT
