"""The leaderboard and a release give the same answer to a question."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.answers import load_answers
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.release import current
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import read_questions, rule, write_file, write_questions
from rag_pipeline_tests.testing.model_server import serving

SAMPLE = Path(__file__).parents[2] / "data"
RETRIEVER = {
    "method": "hybrid",
    "dense_weight": 0.4,
    "lexical_weight": 0.6,
    "document_weight": 2.5,
    "split_query": True,
    "neighbour_weight": 0.1,
    "k": 20,
}
STAGED = {"method": "context_aware", "over": RETRIEVER, "k": 20}
ONE = rule("default", "sentences_600", "structural", "minilm", "discovery", reranker="maxsim")
WRITTEN = {"answers": {"method": "llm", "chat": "small", "contexts": 4}}
MORE = [
    ("compared", "Compare how long confidentiality lasts in the agreements."),
    ("listed", "List all governing laws."),
    ("nowhere", "xylophone zeppelin quartz"),
]


def chats_at(url: str):
    chat = {"provider": "openai", "model": "m", "base_url": url, "patience_seconds": 1}
    return {"small": chat}


def sample_of(folder: Path, **changes) -> Path:
    """Write a corpus of some documents of the sample, their questions, and one of every kind."""
    records = read_questions(SAMPLE)
    chosen = sorted({s["document_id"] for r in records for s in r["gold_spans"]})[::9][:5]
    for document_id in chosen:
        (folder / "documents" / document_id).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE / "documents" / document_id, folder / "documents" / document_id)
    own = [r for r in records if {s["document_id"] for s in r["gold_spans"]} <= set(chosen)][:12]
    own += [{"query_id": query_id, "query": query, "gold_spans": []} for query_id, query in MORE]
    write_questions(folder, own)
    return write_file(
        folder,
        **{
            "chunkings": {"sentences_600": {"method": "sentences", "max_characters": 600}},
            "embeddings": {"minilm": {"provider": "minilm", "token_vectors": True}},
            "retrievers": {"discovery": RETRIEVER},
            "rerankers": {"maxsim": {"method": "maxsim", "weight": 0.4, "candidates": 20}},
            "configurations": [ONE],
            **changes,
        },
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "retrievers": {"discovery": {**RETRIEVER, "adaptive": True, "k": 4}},
            "evaluation": {
                "answers": {
                    "method": "extractive",
                    "sentences": 2,
                    "confidence": 0.3,
                    "contexts": 3,
                }
            },
        },
    ],
    ids=["default", "own settings"],
)
def test_answers_are_the_same_byte_for_byte(tmp_path, changes):
    corpus = Corpus.load(sample_of(tmp_path, **changes))
    list(run(corpus.config))
    measured = load_answers(corpus.workspace, "default")
    assistant = open_assistant([corpus])
    queries = load_queries(corpus.workspace)
    assert len(queries) == 13
    kinds = set()
    for query in queries:
        served = assistant.ask(query.query)
        kinds.add(served.intent.kind)
        answer = measured[query.query_id]
        assert (answer.text, answer.answered) == (served.text, served.answered)
        assert [(c.document_id, c.start, c.end) for c in answer.citations] == [
            (s.document_id, s.start, s.end) for s in served.sources
        ]
    assert {"comparison", "comprehensive", "clause_lookup"} <= kinds
    assert sum(answer.answered for answer in measured.values()) >= 5
    assert not measured["nowhere"].answered


def test_the_assistants_model_changes_no_passage_and_pays_for_no_answer_again(tmp_path):
    """A release that searches in stages of its own does so with the queries that it boosts."""
    written = []

    def reply(body):
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if "queries" in schema.get("properties", {}):
            return json.dumps({"queries": ["obligations of the receiving party"]})
        if schema:
            return json.dumps({"kind": "general", "domain": "law", "entities": []})
        read = hashlib.sha256(body["messages"][-1]["content"].encode()).hexdigest()
        written.append(read)
        return f"From what was read as {read} [1]."

    with serving(reply) as server:
        file = sample_of(
            tmp_path,
            chats=chats_at(server.url),
            assistant={"chat": "small"},
            evaluation=WRITTEN,
            retrievers={"discovery": STAGED},
        )
        corpus = Corpus.load(file)
        list(run(corpus.config))
        measured = load_answers(corpus.workspace, "default")
        assistant = open_assistant([corpus])
        for query in load_queries(corpus.workspace):
            assert assistant.ask(query.query).text == measured[query.query_id].text
        assert len(written) == 13, "an answer that was measured is not asked for again"


def test_a_model_that_answers_unmeasured_is_told_once(tmp_path, caplog):
    """The file is not refused; with the setting that the sentence names there is none."""
    served = {"chats": chats_at("http://127.0.0.1:9/v1"), "assistant": {"chat": "small"}}
    config = load_config(sample_of(tmp_path, **served))
    assert config.unmeasured is not None
    said = "assistant.chat: 'small' writes the served answers, but the leaderboard"
    assert said in config.unmeasured
    open_assistant([Corpus(config)])
    assert [record.getMessage() for record in caplog.records] == [config.unmeasured]

    named = config.unmeasured.rpartition("set evaluation.answers: ")[2]
    assert load_config(sample_of(tmp_path, chats=served["chats"])).unmeasured is None
    measured = load_config(
        sample_of(tmp_path, **served, evaluation={"answers": yaml.safe_load(named)})
    )
    assert measured.unmeasured is None


def test_a_release_answers_as_it_was_measured_until_a_run_measures_other_settings(tmp_path):
    def said_by(sentences):
        answers = {"method": "extractive", "sentences": sentences}
        corpus = Corpus.load(sample_of(tmp_path, evaluation={"answers": answers}))
        assistant = open_assistant([corpus])
        return corpus, lambda query: assistant.ask(query.query).text

    corpus, _ = said_by(1)
    list(run(corpus.config))
    settings = current(corpus.workspace).settings["answers"]
    assert (settings["method"], settings["sentences"]) == ("extractive", 1)
    queries = load_queries(corpus.workspace)
    first = load_answers(corpus.workspace, "default")
    corpus, served = said_by(9)
    assert all(served(query) == first[query.query_id].text for query in queries)

    list(run(corpus.config))
    assert [r.release_id for r in corpus.releases()] == ["release-000002", "release-000001"]
    corpus.reopen()  # on a busy machine the first searches would still read the release before
    measured = load_answers(corpus.workspace, "default")
    assert all(served(query) == measured[query.query_id].text for query in queries)
    assert measured != first, "of the same run: other answers are another release"
    list(run(corpus.config))
    assert len(corpus.releases()) == 2

    # A rolled-back release stays back, although the previous release has the same run.
    corpus.roll_back()
    assert all(served(query) == first[query.query_id].text for query in queries)
    list(run(corpus.config))
    assert corpus.release().release_id == "release-000001"
    assert len(corpus.releases()) == 2
    corpus, _ = said_by(2)
    list(run(corpus.config))
    assert corpus.release().settings["answers"]["sentences"] == 2
