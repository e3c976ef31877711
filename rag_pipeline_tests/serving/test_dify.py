import json
from contextlib import ExitStack

import httpx
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, open_assistant, sentence_vectors
from rag_pipeline.config import AssistantSettings
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline.serving.dify import DifyDataset
from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.labelled import write_labelled
from rag_pipeline_tests.testing.web import web


def ask(url, **changes):
    body = {
        "knowledge_id": "tiny",
        "query": "How expensive may a hotel be?",
        "retrieval_setting": {"top_k": 2, "score_threshold": 0.5},
        **changes,
    }
    return httpx.post(f"{url}/retrieval", json=body)


def only(name, operator, value=None):
    return {"conditions": [{"name": name, "comparison_operator": operator, "value": value}]}


def test_records_tell_how_surely_they_answer(serving):
    reply = ask(serving().url, retrieval_setting={"top_k": 2, "score_threshold": 0.3}).json()
    first = reply["records"][0]
    assert "180 euros" in first["content"]
    assert first["metadata"]["document_id"] == "policy/travel.md"
    assert 0.3 <= first["score"] <= 1
    assert all(r["score"] >= 0.3 for r in reply["records"])


def test_what_nothing_answers_has_no_record_above_the_threshold(serving):
    setting = {"top_k": 3, "score_threshold": 0.9}
    reply = ask(serving().url, query="xylophone zeppelin quartz", retrieval_setting=setting)
    assert reply.json() == {"records": []}
    lower = ask(serving().url, query="xylophone zeppelin quartz", retrieval_setting={"top_k": 3})
    assert max(r["score"] for r in lower.json()["records"]) < 0.3


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"knowledge_id": "other"}, 404, 2001),
        ({"query": ""}, 400, 400),
        ({"retrieval_setting": {"top_k": 0}}, 400, 400),
        ({"retrieval_setting": None}, 400, 400),
        ({"metadata_condition": {"conditions": [{"name": ["year"]}]}}, 400, 400),
        ({"metadata_condition": only("year", "like", "x")}, 400, 400),
        ({"metadata_condition": only("year", "≥", "soon")}, 400, 400),
        ({"metadata_condition": only("year", "before", "soon")}, 400, 400),
        ({"metadata_condition": only("year", "is", None)}, 400, 400),
        ({"metadata_condition": only("year", "in", [])}, 400, 400),
        ({"metadata_condition": only("year", "in", ["x"] * 101)}, 400, 400),
        ({"metadata_condition": only(["year"] * 50_000, "is", "x")}, 400, 400),
    ],
)
def test_dify_is_told_what_is_wrong(serving, changes, status, code):
    reply = ask(serving().url, **changes)
    assert (reply.status_code, reply.json()["error_code"]) == (status, code)


def test_dify_may_send_a_filter_without_conditions(serving):
    reply = ask(serving().url, metadata_condition={"logical_operator": "and", "conditions": []})
    assert reply.status_code == 200
    assert ask(serving().url, metadata_condition=None).json() == reply.json()


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (only("document_name", "is", "nda/acme.txt"), {"nda/acme.txt"}),
        (only(["title", "document_id"], "start with", "policy/"), {"leave", "travel"}),
        (
            {
                "logical_operator": "or",
                "conditions": [
                    *only("document_id", "end with", "leave.md")["conditions"],
                    *only("document_id", "contains", "trav")["conditions"],
                ],
            },
            {"leave", "travel"},
        ),
        (only("no such field", "not empty"), set()),
        (only("document_id", "is", "x' OR 'a' = 'a"), set()),
    ],
)
def test_dify_conditions_filter_what_is_searched(serving, condition, kept):
    setting = {"top_k": 100, "score_threshold": 0}
    reply = ask(serving().url, retrieval_setting=setting, metadata_condition=condition)
    found = {r["metadata"]["document_id"] for r in reply.json()["records"]}
    assert {one.removeprefix("policy/").removesuffix(".md") for one in found} == kept


ABOUT = {
    "open/lighthouse.txt": {"kind": "lease", "budget": "14", "day": "2024-05-01"},
    "open/nutmeg.txt": {"kind": "loan", "budget": "12.5", "day": "2023-01-15"},
    "open/clarinet.md": {},
}
LEASE, LOAN, NEITHER = ({document} for document in ABOUT)


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Serve a corpus with metadata of each kind."""
    folder = tmp_path_factory.mktemp("described")
    file = write_labelled(folder, ABOUT, queries=None)
    lines = [json.dumps({"document_id": document, **about}) for document, about in ABOUT.items()]
    (folder / "about.jsonl").write_text("\n".join(lines))
    corpus = Corpus.load(file)
    list(run(corpus.config))
    with app_server.serving(open_assistant([corpus])) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "operator", "value", "kept"),
    [
        ("kind", "contains", "eas", LEASE),
        ("kind", "not contains", "eas", LOAN),
        ("kind", "start with", "lo", LOAN),
        ("kind", "end with", "se", LEASE),
        ("kind", "is", "lease", LEASE),
        ("kind", "is not", "lease", LOAN),
        ("kind", "in", ["lease", "sale"], LEASE),
        ("kind", "in", "sale, loan", LOAN),
        ("kind", "not in", ["lease"], LOAN),
        ("kind", "empty", None, NEITHER),
        ("kind", "not empty", None, LEASE | LOAN),
        ("budget", "=", 14, LEASE),
        ("budget", "≠", "14", LOAN),
        ("budget", ">", 12.5, LEASE),
        ("budget", "<", 14, LOAN),
        ("budget", "≥", 12.5, LEASE | LOAN),
        ("budget", "≤", 12.5, LOAN),
        ("day", "before", "2024-01-01", LOAN),
        ("day", "after", "2024-01-01", LEASE),
        (["day", "kind"], "start with", "2023", LOAN),
    ],
)
def test_each_operator_of_dify_means_as_its_contract_says(described, name, operator, value, kept):
    setting = {"top_k": 100, "score_threshold": 0.0}
    condition = only(name, operator, value)
    reply = ask(described.url, retrieval_setting=setting, metadata_condition=condition)
    assert reply.status_code == 200, reply.text
    records = reply.json()["records"]
    assert {record["metadata"]["document_id"] for record in records} == kept
    assert all({"content", "score", "title", "metadata"} == {*record} for record in records)


def test_dify_reads_why_a_key_is_refused(serving):
    server = serving(token="a-token-of-some-length")
    for header, code in (("Token abc", 1001), ("Bearer abc", 1002)):
        reply = httpx.post(f"{server.url}/retrieval", json={}, headers={"Authorization": header})
        told = reply.json()
        assert (reply.status_code, told["error_code"]) == (401, code)
        assert told["error_msg"] == "a bearer token is needed"


def over(dataset, **settings):
    """Return an assistant over a dataset."""
    return Assistant(
        corpora={"d1": dataset}, settings=AssistantSettings(**settings), reader=sentence_vectors
    )


@pytest.fixture
def dify():
    """Return a function to a dataset of a Dify that answers so, and the server."""
    with ExitStack() as running:

        def made(records, status=200):
            reply = (status, {}, {"query": {}, "records": records})
            server = running.enter_context(web(lambda path, body: reply))
            return DifyDataset("d1", f"{server.url}/v1", "secret-key"), server

        yield made


def test_a_dify_dataset_is_searched_and_cited(dify):
    segment = {
        "id": "s1",
        "content": "The fee is 40 euros.",
        "document": {"id": "x", "name": "fees.pdf"},
    }
    dataset, server = dify([{"segment": segment, "score": 0.8}])
    assistant = over(dataset)
    made = assistant.ask("How high is the fee?")
    assert "40 euros" in made.text
    assert made.sources[0].document_id == "fees.pdf"
    assert made.sources[0].verified
    path, body = server.asked[0]
    assert path == "/v1/datasets/d1/retrieve"
    assert server.headers[0]["authorization"] == "Bearer secret-key"
    assert body["query"] == "How high is the fee?"


def test_one_document_of_a_dify_dataset_is_chosen_among_all_that_it_returns(dify):
    records = [
        {"segment": {"id": n, "content": f"Fee {n}.", "document": {"name": f"{n}.pdf"}}}
        for n in range(3)
    ]
    dataset, server = dify(records)
    assistant = over(dataset)
    found = assistant.search("How high is the fee?", ["d1"], "2.pdf", k=1)
    assert [p.document_id for p in found] == ["2.pdf"]
    asked = server.asked[0][1]["retrieval_model"]
    assert asked["top_k"] == 100
    assert asked["metadata_filtering_conditions"]["conditions"] == [
        {"name": "document_name", "comparison_operator": "is", "value": "2.pdf"}
    ]
    with pytest.raises(InputError, match="does not support `where`"):
        assistant.search("How high is the fee?", ["d1"], where="title = 'x'")


def test_leading_documents_are_searched_once_more_by_full_text(dify):
    texts = {"a": "The fee is due in June.", "b": "Rent is due in May.", "c": "A fee is paid."}
    records = [
        {"segment": {"id": n, "content": text, "document": {"name": f"{n}.pdf"}}, "score": score}
        for score, (n, text) in zip((0.9, 0.5, 0.5), texts.items(), strict=True)
    ]
    dataset, server = dify(records)
    assistant = over(dataset, boosted_files=2, variants=1)
    found = assistant.search("When is the fee due?", ["d1"], k=3)
    methods = [body["retrieval_model"]["search_method"] for _, body in server.asked]
    assert methods == ["hybrid_search", "full_text_search", "full_text_search"]
    boosted = {body["query"] for _, body in server.asked[1:]}
    assert boosted == {"When is the fee due? June", "When is the fee due? May Rent"}
    # b, of the same score as c, gains by its own boosted search
    assert [p.document_id for p in found] == ["a.pdf", "b.pdf", "c.pdf"]


@pytest.mark.parametrize(("records", "status"), [([], 500), ([], 401), ("no", 200), ([1], 200)])
def test_a_dify_that_fails_is_named_without_its_key(dify, records, status):
    dataset, _ = dify(records, status)
    assistant = over(dataset)
    with pytest.raises(ProviderError, match="d1: Dify") as error:
        assistant.ask("How high is the fee?")
    assert "secret-key" not in str(error.value)
