from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.evaluation.learned import cross_fitted, with_weights
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_groups, load_queries, load_ranked
from rag_pipeline.search.pinned import open_index, pin
from rag_pipeline.search.retrieval import Searcher, cached
from rag_pipeline.search.retrievers.learned import WEIGHTS
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import (
    question,
    rule,
    write_documents,
    write_file,
    write_questions,
)

THINGS = "rent fee deposit notice insurance parking heating garden cellar key".split()
TOWNS = "Aarau Bern Chur Davos Emmen Flims Glarus Horgen Ilanz Jona".split()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Return a corpus of sixty questions that was run with a learned retriever."""
    from rag_pipeline_tests.testing.builds import run

    folder = tmp_path_factory.mktemp("learned")
    facts = {
        f"{town}.txt": [
            f"The {thing} in {town} is due on day {3 * n + m} of each month."
            for m, thing in enumerate(THINGS[:6])
        ]
        for n, town in enumerate(TOWNS)
    }
    write_documents(folder / "documents", {d: "\n\n".join(s) for d, s in facts.items()})
    text = "On which day must I pay the {} of a flat in {}?"
    records = [
        question(f"{town}-{thing}", text.format(thing, town), document, sentence)
        for town, (document, sentences) in zip(TOWNS, facts.items(), strict=True)
        for thing, sentence in zip(THINGS, sentences, strict=False)
    ]
    write_questions(folder, records)
    file = write_file(
        folder,
        chunkings={"recursive_80": {"method": "recursive", "max_characters": 80}},
        retrievers={"learned": {"method": "learned", "k": 10, "neighbour_weight": 0.1}},
        configurations=[rule("default", "recursive_80", retriever="learned")],
    )
    list(run(load_config(file)))
    return Workspace(load_config(file))


def test_each_question_is_measured_with_weights_of_other_documents_questions(learned):
    configuration = learned.config.all_configurations["default"]
    searcher = Searcher(
        index=open_index(learned, pin(learned, configuration)),
        retriever=learned.config.retrievers["learned"],
        reranker=learned.config.rerankers["none"],
        embed=cached(learned.embed("minilm", CallCounts(), "query")),
    )
    queries, groups = load_queries(learned), load_groups(learned)
    asked, _ = cross_fitted(searcher, queries, groups)
    assert sum(len(own) for own, _ in asked) == 60
    of_fold = [{groups[q.query_id] for q in own} for own, _ in asked]
    assert all(not a & b for a in of_fold for b in of_fold if a is not b)
    ranked = load_ranked(learned, "default")
    for own, settings in asked:
        requests = [SearchRequest(query=q.query) for q in own]
        found = replace(searcher, retriever=settings).search_all(requests)
        for query, again in zip(own, found, strict=True):
            kept = [(c.chunk_id, c.score) for c in ranked[query.query_id]]
            assert kept == [(c.chunk_id, c.score) for c in again.chunks]


def test_the_release_serves_the_weights_learned_from_all_questions(learned):
    weights = RUN.note(learned, "default")["weights"]
    assert set(weights) == set(WEIGHTS)
    retriever = Corpus(learned.config).release().typed_settings().retriever
    assert retriever == with_weights(learned.config.retrievers["learned"], weights)


def test_few_questions_leave_the_weights_as_they_are_set(learned):
    settings = learned.config.retrievers["learned"].model_copy(update={"minimum_queries": 61})
    queries = load_queries(learned)
    searcher: Any = SimpleNamespace(retriever=settings)
    assert cross_fitted(searcher, queries, {}) == ([(queries, settings)], None)
