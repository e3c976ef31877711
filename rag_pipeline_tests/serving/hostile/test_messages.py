"""Errors in replies: they say what is wrong, but not where the server keeps its files."""

import json
import shutil

import httpx
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.errors import ConfigError, InputError, StoreError
from rag_pipeline.serving.messages import told
from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.corpora import copy_corpus
from rag_pipeline_tests.testing.hostile_requests import TOKEN, ask, post, tool

FILES = ["releases/current.json", "lexical/**/FILES.json", "tables/vec*/data/*", "tables/doc*/*"]


@pytest.mark.parametrize("damaged", FILES)
def test_no_reply_about_a_damaged_store_says_where_it_is(built, tmp_path, caplog, damaged):
    copy_corpus(built.parent, tmp_path / "my corpora")
    store = tmp_path / "my corpora" / "store" / "tiny"
    for path in store.glob(damaged):
        if path.is_file():
            path.write_bytes(b"torn")
        else:
            shutil.rmtree(path)
    asked = {"query": "parcel", "dataset_info": "tiny"}
    dify = {"knowledge_id": "tiny", "query": "parcel", "retrieval_setting": {"top_k": 3}}
    own = open_assistant([Corpus.load(tmp_path / "my corpora" / built.name)])
    with serving(own, token=TOKEN) as server:
        authorized = {"Authorization": f"Bearer {TOKEN}"}
        replies = [
            ask(server, "How much does a parcel weigh?").text,
            httpx.get(f"{server.url}/v1/documents/plain.txt", headers=authorized).text,
            post(server, "/retrieval", json.dumps(dify).encode()).text,
            httpx.get(f"{server.url}/v1/corpora", headers=authorized).text,
            *(json.dumps(tool(server, name, asked)) for name in ("assistant", "search_chunks")),
            json.dumps(tool(server, "health", {})),
        ]
    assert any("rror" in reply for reply in replies)
    assert not [reply for reply in replies if str(tmp_path) in reply or "my corpora" in reply]
    logged = [json.loads(r.message) for r in caplog.records if r.name == "rag_pipeline.serving"]
    assert all(str(tmp_path) in one["error"] and len(one["request_id"]) == 32 for one in logged)
    assert logged or damaged != "releases/current.json"  # other messages begin in the store


MESSAGES = {
    "/srv/my data/store/tiny/FILES.json: torn (see /srv/log/a.txt)": "FILES.json: torn (see a.txt)",
    "cannot read '/srv/data/a.json': No such file": "cannot read 'a.json': No such file",
    "file:///srv/data/tiny: gone; /srv/a is not in /srv/b": "tiny: gone; a is not in b",
    "run: /usr/bin/python -m pip install -e /srv/a[pdf]": "run: python -m pip install -e a[pdf]",
    "lance: Not found: srv/my data/tables/a.lance; mend": "lance: Not found: a.lance; mend",
    "Dataset at path srv/my data/a.lance was not found": "Dataset at path a.lance was not found",
    "cannot search: /srv/my da … ta/tables/a.lance": "cannot search: a.lance",
    "https://host/v1/chat and s3://bucket/store/a: 404": None,
    "policies/leave.md: read and/or write; 1 / 2": None,
}


@pytest.mark.parametrize(("message", "shown"), MESSAGES.items())
def test_absolute_paths_end_at_their_last_name(caplog, message, shown):
    assert told(StoreError(message)) == (shown or message)
    assert [json.loads(r.message)["error"] for r in caplog.records] == [message] * bool(shown)


def test_a_path_that_a_client_made_up_is_not_logged(caplog):
    assert told(InputError("no document '/etc/passwd'")) == "no document 'passwd'"
    assert caplog.records == []
    assert told(ConfigError("/srv/a.yaml: no")) == "a.yaml: no"
    assert len(caplog.records) == 1
