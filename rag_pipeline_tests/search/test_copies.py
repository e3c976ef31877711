"""Copies of a document: indexed once, cited by all names, and never lost."""

from typing import Any

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Caller, SearchRequest
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.pipeline.planning import changed_files
from rag_pipeline.search.copies import find_copies
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    question,
    rule,
    write_corpus,
    write_documents,
    write_file,
    write_questions,
)

ACME, COPY, SAVED = "nda/acme.txt", "archive/2021/acme.txt", "nda/acme copy.md"
ASKED = "How long does confidentiality last under the Acme NDA?"
CLAUSE = "Obligations of confidentiality last for five (5) years"


def found(corpus: Corpus, **request: Any) -> tuple[str, tuple[str, ...]]:
    best = corpus.retrieve(SearchRequest(query=CLAUSE, k=1, **request)).chunks[0]
    return best.document_id, best.copies


def indexed(corpus: Corpus) -> set[str]:
    release = corpus.release()
    table = corpus.workspace.store.table(
        release.pinned.vector_table, corpus.workspace.documents().schema
    )
    rows = table.dataset(release.pinned.vector_version).to_table(["document_id"])
    return set(rows.column("document_id").to_pylist())


def test_a_copy_is_indexed_once_and_found_by_each_name(tmp_path):
    few: dict[str, Any] = {"configurations": [rule("plain", retriever="hybrid")]}
    file = write_corpus(tmp_path, **few)
    documents = tmp_path / "documents"
    write_documents(documents, {COPY: DOCUMENTS[ACME], SAVED: DOCUMENTS[ACME]})
    (documents / SAVED).write_bytes(DOCUMENTS[ACME].encode("utf-16"))  # the same text
    term = [question("q1", ASKED, COPY, "five (5) years"), question("q2", "Law?", ACME, "Delaware")]
    write_questions(
        tmp_path,
        [*term, {"query_id": "q3", "query": "Acme?", "gold_spans": [{"document_id": SAVED}]}],
    )
    list(run(load_config(file)))

    corpus = Corpus.load(file)
    assert find_copies(corpus.workspace) == {COPY: ACME, SAVED: ACME}
    assert indexed(corpus) == set(DOCUMENTS)
    assert found(corpus) == (ACME, (SAVED, COPY))
    assert found(corpus, document_id=COPY) == (ACME, (SAVED, COPY))
    assert found(corpus, where="document_id LIKE 'archive/%'") == (ACME, (SAVED, COPY))
    assert (
        corpus.retrieve(SearchRequest(query=ASKED, where="document_id LIKE 'none/%'")).chunks == []
    )
    assert (
        corpus.retrieve(
            SearchRequest(query=ASKED, where="document_id LIKE 'archive/%' AND start > 9")
        ).chunks
        == []
    )
    assert corpus.document(COPY).text == DOCUMENTS[ACME]
    answer = open_assistant([corpus]).ask("Who made an agreement with Birch Paper Ltd.?")
    assert [(s.document_id, s.copies) for s in answer.sources[:1]] == [(ACME, (SAVED, COPY))]
    gold = {q.query_id: q.answering_documents for q in load_queries(corpus.workspace)}
    assert gold == {"q1": (ACME,), "q2": (ACME,), "q3": (ACME,)}
    scores = corpus.leaderboard()["configurations"][0]["metrics"]["AnswerPresence@20"]
    assert (scores["mean"], scores["n"]) == (1.0, 2)

    assert changed_files(corpus.workspace) == ([], [], [], [], [], [], [], {})

    # Without the indexed document, a copy takes its place. A renamed document keeps its gold.
    (documents / ACME).rename(documents / "nda/rockets.txt")
    (documents / COPY).unlink()
    done = {str(d.step): d for d in run(load_config(file))}
    assert done["chunks recursive_150"].metadata["documents_worked_on"] == 1
    corpus = Corpus.load(file)
    assert found(corpus) == ("nda/rockets.txt", (SAVED,))
    gold = {q.query_id: q.answering_documents for q in load_queries(corpus.workspace)}
    assert gold == dict.fromkeys(("q1", "q2", "q3"), ("nda/rockets.txt",))

    # The renamed document is followed when it is edited later, and the copy is no copy any more.
    edited = DOCUMENTS[ACME].replace("1. Term.", "1. Duration.")
    write_documents(documents, {"nda/rockets.txt": edited})
    list(run(load_config(file)))
    corpus = Corpus.load(file)
    assert indexed(corpus) == {*DOCUMENTS, "nda/rockets.txt", SAVED} - {ACME}
    (first, *_) = load_queries(corpus.workspace)
    (span,) = first.gold_spans
    assert edited[span.start : span.end] == "five (5) years"
    assert span.document_id == "nda/rockets.txt"

    # Documents with other readers are no copies.
    (documents / SAVED).write_text(edited)
    rules = [{"match": "nda/rockets.txt", "labels": ["legal"]}]
    open_to_all = write_file(tmp_path, **few, access={"default": "public", "rules": rules})
    list(run(load_config(open_to_all)))
    corpus = Corpus.load(open_to_all)
    assert {"nda/rockets.txt", SAVED} <= indexed(corpus)
    other = SearchRequest(query=ASKED, caller=Caller(frozenset({"other"})))
    seen = {chunk.document_id: chunk.copies for chunk in corpus.retrieve(other).chunks}
    assert seen == dict.fromkeys({*DOCUMENTS, SAVED} - {ACME}, ())
