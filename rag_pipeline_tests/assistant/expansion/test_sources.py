import json

import pytest

from rag_pipeline.assistant.expansion.sources import Folder, cut, open_source, page
from rag_pipeline.config import Expansion, load_config
from rag_pipeline.errors import ConfigError, ProviderError
from rag_pipeline.models.providers.openai_web_search import cited_pages
from rag_pipeline_tests.testing.corpora import write_corpus, write_documents
from rag_pipeline_tests.testing.expansion import ANSWER, OUTSIDE, QUESTION
from rag_pipeline_tests.testing.web import web

MANY = 100_000


# --- a folder ---


@pytest.fixture
def folder(tmp_path):
    write_documents(tmp_path, OUTSIDE)
    return tmp_path


def test_a_folders_best_document_comes_first_with_its_path_as_place(folder):
    (found,) = Folder(folder, MANY).find(QUESTION, 3, ())
    assert (found.document_id, found.text, found.title) == (
        "visa/norway.md",
        OUTSIDE["visa/norway.md"],
        "Visas",
    )


def test_a_long_document_is_ranked_by_its_best_passage(folder):
    padding = "Nothing of note happened on this day in the office.\n\n" * 100
    (folder / "long.txt").write_text(padding + "Lobster permits are renewed by the harbour.\n")
    (folder / "short.txt").write_text("The harbour has permits.\n")
    found = Folder(folder, MANY).find("renewed lobster permits", 2, ())
    assert [f.document_id for f in found] == ["long.txt", "short.txt"]


def test_what_is_indexed_is_not_found(folder):
    source = Folder(folder, MANY)
    (found,) = source.find(QUESTION, 3, ())
    assert source.find(QUESTION, 3, {found.content_hash}) == []


def test_a_file_that_changed_or_came_is_seen(folder):
    source = Folder(folder, MANY)
    assert source.find("lighthouse keepers", 3, ()) == []
    (folder / "fruit.txt").write_text("Lighthouse keepers eat bananas.\n")
    assert [f.document_id for f in source.find("lighthouse keepers", 3, ())] == ["fruit.txt"]


def test_binary_and_broken_files_are_passed_over(folder):
    (folder / "visa.bin").write_bytes(b"work visa Norway cost\x00\xff" * 50)
    (folder / "visa.pdf").write_bytes(b"%PDF-1.4 work visa for Norway")
    (folder / "cut.txt").write_bytes("Visa for Norway: für".encode()[:-2])
    assert [f.document_id for f in Folder(folder, MANY).find(QUESTION, 9, ())] == ["visa/norway.md"]


def test_a_huge_document_is_cut(folder):
    (folder / "huge.txt").write_text("lobster permits " * 50_000)
    (found,) = Folder(folder, 1_000).find("lobster permits", 1, ())
    assert found.text == ("lobster permits " * 63)[:999].rstrip()


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_with_nothing_is_named(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"assistant\.expansion\.look_in\.path: .*" + name):
        Folder(tmp_path / name, MANY).find(QUESTION, 3, ())


# --- SearXNG ---


def _searxng(url, **changes):
    look_in = {"source": "searxng", "base_url": url, **changes}
    return open_source(None, Expansion.model_validate({"look_in": look_in}))


def _results(*results):
    return lambda path, request: (200, {}, json.dumps({"results": results}).encode())


def test_results_become_documents_and_their_pages_are_never_fetched():
    with web(lambda path, request: (200, {}, body)) as server:
        own = f"{server.url}/admin"
        results = [
            {"url": own, "title": "Norway <b>visas</b>", "content": ANSWER},
            {"url": "https://b.example/x", "title": "B", "content": "<p>Take <i>care</i></p>"
             "<script>alert(1)</script>"},
        ]  # fmt: skip
        body = json.dumps({"results": results}).encode()
        found = _searxng(server.url + "/").find(QUESTION, 5, ())
    assert server.asked == [("/search", {"q": QUESTION, "format": "json"})]
    assert [(f.document_id, f.title.replace("*", ""), f.text) for f in found] == [
        (own, "Norway visas", ANSWER),
        ("https://b.example/x", "B", "Take *care*"),
    ]


def test_results_that_are_none_are_passed_over():
    bad = [
        {"url": "javascript:alert(1)", "title": "x", "content": "text"},
        {"url": "file:///etc/passwd", "title": "x", "content": "text"},
        {"url": "https://a.example/\u202e", "title": "x", "content": "text"},
        {"url": "https://a.example/", "title": "no text"},
        {"url": "https://a.example/", "title": "blank", "content": "  "},
        {"url": 5, "content": ["text"]},
        "text",
        None,
    ]
    with web(_results(*bad, {"url": "https://good.example/", "content": "a\x00b"})) as server:
        (found,) = _searxng(server.url, results=20).find(QUESTION, 5, ())
    assert (found.document_id, found.title, found.text) == (
        "https://good.example/",
        "https://good.example/",
        "a\ufffdb",
    )


def test_a_redirect_is_not_followed():
    with web(_results()) as inside:
        target = f"{inside.url}/secret"
        with (
            web(lambda path, request: (302, {"Location": target}, b"")) as server,
            pytest.raises(ProviderError, match="answered 302"),
        ):
            _searxng(server.url).find(QUESTION, 5, ())
    assert inside.asked == []


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, b"", "search.formats"),
        (500, b"{}", "answered 500"),
        (200, b"<html>", "not JSON"),
        (200, b"[" * 100_000, "not JSON"),
        (200, b'{"results": 5}', "not SearXNG's JSON"),
        (200, b'{"answers": []}', "not SearXNG's JSON"),
        (200, b" " * 2_000_001, "more than 2,000,000 bytes"),
    ],
)
def test_a_server_that_answers_badly_is_named(status, body, message):
    with (
        web(lambda path, request: (status, {}, body)) as server,
        pytest.raises(ProviderError, match=message) as caught,
    ):
        _searxng(server.url).find(QUESTION, 5, ())
    assert server.url in str(caught.value)


def test_a_server_that_is_not_there_is_named():
    with web(_results()) as server:
        pass
    with pytest.raises(ProviderError, match="cannot be reached"):
        _searxng(server.url).find(QUESTION, 5, ())


# --- OpenAI's web search tool ---


def _response(text, *annotations):
    content = {"type": "output_text", "text": text, "annotations": list(annotations)}
    message = {
        "type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [content],
    }  # fmt: skip
    search = {
        "type": "web_search_call", "id": "w", "status": "completed",
        "action": {"type": "search", "query": "visa"},
    }  # fmt: skip
    return {
        "id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed",
        "output": [search, message], "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "usage": {
            "input_tokens": 7, "output_tokens": 5, "total_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def _citation(text, link, url, title="Title"):
    start = text.index(link)
    return {
        "type": "url_citation", "start_index": start, "end_index": start + len(link),
        "url": url, "title": title,
    }  # fmt: skip


LINK = "([a.example](https://a.example/visa))"
SAID = f"Here is what I found.\n\n{ANSWER} {LINK}\n\nThe end."


@pytest.fixture
def web_search(tmp_path, monkeypatch):
    """Return a function from a server to a web search by its model."""
    monkeypatch.setenv("SOME_KEY", "sk-secret-123456")

    def made(server):
        address = {"base_url": f"{server.url}/v1", "api_key_env": "SOME_KEY"}
        chat = {"provider": "openai", "model": "some-model", **address}
        look_in = {"source": "openai_web_search", "chat": "web"}
        config = load_config(write_corpus(tmp_path, chats={"web": chat}))
        return open_source(config, Expansion.model_validate({"look_in": look_in}))

    return made


def test_a_web_search_keeps_the_paragraphs_that_cite_a_page(web_search):
    body = json.dumps(_response(SAID, _citation(SAID, LINK, "https://a.example/visa"))).encode()
    with web(lambda path, request: (200, {}, body)) as server:
        (found,) = web_search(server).find(QUESTION, 3, ())
    assert (found.document_id, found.title, found.text) == (
        "https://a.example/visa",
        "Title",
        ANSWER,
    )
    ((path, request),) = server.asked
    assert path == "/v1/responses"
    assert request["input"] == QUESTION
    assert request["tools"] == [{"type": "web_search"}]


def test_a_refused_key_is_told_without_it(web_search):
    body = json.dumps({"error": {"message": "wrong key sk-secret-123456"}}).encode()
    with (
        web(lambda path, request: (401, {}, body)) as server,
        pytest.raises(ProviderError, match="SOME_KEY") as caught,
    ):
        web_search(server).find(QUESTION, 3, ())
    assert "sk-secret" not in str(caught.value)


def test_annotations_that_do_not_fit_the_text_are_passed_over():
    good = _citation(SAID, LINK, "https://a.example/visa")
    bad = [
        {**good, "end_index": 10_000},
        {**good, "start_index": -1},
        {**good, "start_index": None},
        {**good, "url": None},
        {**good, "type": "file_citation"},
        "text",
    ]
    assert cited_pages(_response(SAID, *bad)) == []
    assert len(cited_pages(_response(SAID, *bad, good))) == 1
    assert cited_pages({"output": [None, {"content": "x"}, {"content": [{"text": 5}]}]}) == []


# --- common functions ---


def test_text_is_cut_at_white_space():
    assert cut("one two three", 9) == "one two"
    assert cut("one two three", 13) == "one two three"
    assert cut("x" * 20, 10) == "x" * 10


def test_a_page_is_cut_and_its_markup_taken_out():
    found = page("https://a.example/", "T", "<p>" + "word " * 1000 + "</p>", 100)
    assert found is not None
    assert found.text == "word " * 19 + "word"
