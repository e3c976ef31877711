"""`rag verify` proves the sources of a kept answer, whichever interface wrote it."""

import json
from pathlib import Path

import httpx
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.errors import CheckFailedError, InputError
from rag_pipeline.release import bundle
from rag_pipeline.release.proof import prove, read_answer
from rag_pipeline_tests.testing.app_server import call_mcp, serving
from rag_pipeline_tests.testing.command_line import rag, refused, said

QUESTION = "How expensive may a hotel be?"


@pytest.fixture(scope="module")
def asked(released):
    """Return the answer of the command line."""
    return json.loads(said("ask", QUESTION, released.config.file, "--json"))


@pytest.fixture(scope="module")
def packed(released, tmp_path_factory):
    file = tmp_path_factory.mktemp("packed") / "tiny.zip"
    bundle.export(released.workspace, released.release().release_id, file)
    return file


@pytest.fixture
def kept(asked, tmp_path):
    """Return a function that writes the answer with changes of its first source or release."""

    def write(source=(), release=(), **changes):
        first, *others = asked["sources"]
        made = {
            **asked,
            "sources": [{**first, **dict(source)}, *others],
            "releases": [{**asked["releases"][0], **dict(release)}],
            **changes,
        }
        (tmp_path / "answer.json").write_text(json.dumps(made))
        return tmp_path / "answer.json"

    return write


def test_an_answer_of_each_interface_is_proved(released, packed, kept, tmp_path, monkeypatch):
    with serving(open_assistant([released])) as server:
        chat = {"model": "tiny", "messages": [{"role": "user", "content": QUESTION}]}
        answers = {
            "rag ask": kept().read_text(),
            "http": httpx.post(f"{server.url}/v1/ask", json={"query": QUESTION}).text,
            "chat": httpx.post(f"{server.url}/v1/chat/completions", json=chat).text,
            "mcp": json.dumps(
                call_mcp(
                    f"{server.url}/mcp",
                    lambda client: client.call_tool("assistant", {"query": QUESTION}),
                ).structured_content
            ),
        }
    monkeypatch.chdir(tmp_path)  # a folder without a corpus file
    for name, answer in answers.items():
        file = tmp_path / f"{name}.json"
        file.write_text(answer)
        for place in ((released.config.file,), ("--bundle", packed)):
            told = json.loads(said("verify", file, *place, "--json"))
            assert told == {"release": "release-000001", "proved": [1], "other_corpora": []}, name
    assert "1 source found in release-000001 as cited\n" in said("verify", file, "--bundle", packed)
    both = "verify", file, released.config.file, "--bundle", packed
    assert "name a corpus or a bundle, not both" in refused(*both)


ALTERED = {
    "words": (
        {"source": {"text": "at most 181 euros a night"}},
        "and the answer cites 'at most 181",
    ),
    "span": ({"source": {"start": 0}}, "characters 0 to"),
    "document": ({"source": {"document_id": "policy/none.md"}}, "has no such document"),
    "hash": ({"source": {"content_hash": "0" * 64}}, "has another hash"),
    "chunk": ({"source": {"chunk_id": "policy/travel.md#0-1"}}, "has no chunk"),
    "outside": ({"source": {"origin": {"source": "web"}}}, "outside the corpus"),
    "release time": (
        {"release": {"released": "2020-01-01"}},
        "the answer is from release-000001 of",
    ),
    "configuration": ({"release": {"configuration": "other"}}, "(other)"),
    "corpus": ({"release": {"corpus": "other"}}, "but from: other"),
    "no sources": ({"sources": []}, "a proof is impossible"),
}


@pytest.mark.parametrize(("changes", "reason"), ALTERED.values(), ids=ALTERED)
def test_what_was_altered_is_refused_with_its_reason(released, packed, kept, changes, reason):
    answer = read_answer(kept(**changes))
    for place in (released.workspace, packed):
        with pytest.raises(CheckFailedError) as error:
            prove(answer, place)
        assert reason in str(error.value)


def test_sources_of_another_corpus_alone_prove_nothing(released, asked, kept):
    others = [{**source, "corpus": "other"} for source in asked["sources"]]
    with pytest.raises(CheckFailedError, match="no source is of the corpus"):
        prove(read_answer(kept(sources=others)), released.workspace)


def test_the_reason_comes_with_an_exit_code(released, kept, tmp_path):
    file = kept(release={"release": "release-000009"})
    outcome = rag("verify", file, released.config.file)
    assert (outcome.code, outcome.out) == (3, "")
    assert "no release 'release-000009'" in outcome.err
    (tmp_path / "other.json").write_text('{"text": "an answer"}')
    assert "not an answer" in refused("verify", tmp_path / "other.json", released.config.file)


def test_a_span_outside_of_its_chunk_is_refused(released, asked, kept):
    (first, *_) = asked["sources"]
    document = released.document(first["document_id"])
    chunks = {c.chunk_id: c for c in released.search("flights hotels meals", k=20)}
    other = next(
        c
        for c in chunks.values()
        if c.document_id == document.document_id and not c.start <= first["start"] < c.end
    )
    answer = read_answer(kept(source={"chunk_id": other.chunk_id}))
    with pytest.raises(CheckFailedError, match="outside of the chunk"):
        prove(answer, released.workspace)


def test_an_imported_release_proves_by_its_bundle(released, packed, tmp_path):
    """The importer gives the release another id; time, configuration and hashes stay."""
    content = bundle.minimal_config(packed, str(tmp_path / "store"))
    file = tmp_path / "imported.yaml"
    file.write_text(json.dumps({"type": "rag_pipeline.RagPipeline", "attributes": content}))
    imported = Corpus.load(file)
    bundle.import_release(imported.workspace, packed, trust_endpoints=True)
    made = json.loads(said("ask", QUESTION, file, "--json"))
    (tmp_path / "answer.json").write_text(json.dumps(made))
    answer = read_answer(tmp_path / "answer.json")
    assert prove(answer, imported.workspace).release.release_id == imported.release().release_id
    assert prove(answer, packed).release.release_id == "release-000001"


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"sources": 1}', '"a"'])
def test_other_files_are_no_answers(text, tmp_path):
    file = Path(tmp_path / "answer.json")
    file.write_text(text)
    with pytest.raises(InputError, match="not an answer"):
        read_answer(file)
