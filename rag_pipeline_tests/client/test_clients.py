import asyncio
import json

import pytest

from rag_pipeline import AsyncClient, Client
from rag_pipeline.assistant import open_assistant
from rag_pipeline.client.records import Answer, FeedbackBody, NamedPassage, Stage
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.corpora import DOCUMENTS
from rag_pipeline_tests.testing.servers import free_port

QUESTION = "How expensive may a hotel be?"
TOKEN = "a-token-of-some-length"


@pytest.fixture
def server(released, tmp_path):
    file = tmp_path / "feedback.jsonl"
    with serving(open_assistant([released]), token=TOKEN, feedback=file) as server:
        yield server


def test_a_client_returns_typed_records(server):
    with Client(server.url, TOKEN) as client:
        found = client.search(QUESTION, k=2, corpora=["tiny"])
        made = client.ask(QUESTION, where="document_id LIKE 'policy/%'")
        *stages, last = client.stream(
            "And the Cedar NDA?", turns=["How long does confidentiality last under the Acme NDA?"]
        )
        part = client.document("policy/leave.md", start=10, characters=20)
        (corpus,) = client.corpora()
    assert found.passages[0].document_id == "policy/travel.md"
    assert len(found.passages) == 2
    assert "180 euros" in made.text and made.sources[0].verified
    assert [stage.name for stage in stages if isinstance(stage, Stage)] == [
        "intent",
        "search",
        "answer",
        "citations",
    ]
    assert isinstance(last, Answer) and last.sources[0].document_id == "nda/cedar.txt"
    assert part.text == DOCUMENTS["policy/leave.md"][10:30]
    assert (corpus.name, corpus.release) == ("tiny", "release-000001")


def test_an_awaited_client_returns_the_same(server):
    async def work():
        async with AsyncClient(server.url, TOKEN) as client:
            found, made = await asyncio.gather(client.search(QUESTION), client.ask(QUESTION))
            streamed = [one async for one in client.stream(QUESTION)]
            part = await client.document("policy/leave.md")
            return found, made, streamed, part, await client.corpora()

    found, made, streamed, part, corpora = asyncio.run(work())
    with Client(server.url, TOKEN) as client:
        assert found == client.search(QUESTION)
        assert corpora == client.corpora()
    assert streamed[-1].model_copy(update={"trace": made.trace}) == made
    assert part.text == DOCUMENTS["policy/leave.md"]


def test_a_refusal_and_a_failure_are_different_errors(server):
    with Client(server.url, TOKEN) as client:
        for refused in (
            lambda: client.ask(" "),
            lambda: client.ask("x" * 4001),
            lambda: client.search("a", k=0),
            lambda: client.document("none.txt"),
            lambda: list(client.stream("a", corpora=["other"])),
        ):
            with pytest.raises(InputError):
                refused()
    with Client(server.url, "no such token") as client, pytest.raises(ProviderError) as failed:
        client.corpora()
    assert failed.value.status == 401
    with Client(f"http://127.0.0.1:{free_port()}") as client:
        for unreached in (client.corpora, lambda: list(client.stream("a"))):
            with pytest.raises(ProviderError, match="cannot be reached"):
                unreached()


def test_feedback_is_kept_with_the_words_of_its_passage(server, tmp_path):
    text = DOCUMENTS["policy/travel.md"]
    start = text.index("180 euros")
    passage = NamedPassage(document_id="policy/travel.md", start=start, end=start + 9)
    told = FeedbackBody(query=QUESTION, corpus="tiny", verdict="wrong", passage=passage)
    with Client(server.url, TOKEN) as client:
        kept = client.feedback(told)
        for wrong in (
            told.model_copy(update={"corpus": "other"}),
            told.model_copy(update={"passage": passage.model_copy(update={"end": 10**6})}),
            told.model_copy(
                update={"passage": passage.model_copy(update={"document_id": "no.txt"})}
            ),
        ):
            with pytest.raises(InputError):
                client.feedback(wrong)
    (line,) = (tmp_path / "feedback.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["id"], record["query"], record["verdict"]) == (kept.id, QUESTION, "wrong")
    assert record["passage"]["text"] == "180 euros"
    assert record["labels"] == []
    assert (tmp_path / "feedback.jsonl").stat().st_mode & 0o077 == 0


def test_a_server_without_a_file_keeps_no_feedback(released):
    told = FeedbackBody(query=QUESTION, corpus="tiny", verdict="helpful")
    with serving(open_assistant([released])) as server:
        client = Client(server.url)
        with client, pytest.raises(InputError):
            client.feedback(told)
