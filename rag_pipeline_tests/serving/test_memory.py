"""Corpora of a server share a budget of memory; the one that is unused for longest is closed."""

import httpx
import pytest
from starlette.applications import Starlette

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.config import Access
from rag_pipeline.datamodels import ANYBODY
from rag_pipeline.serving import memory
from rag_pipeline.serving.tools import health_of
from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.corpora import renamed_corpus

NAMES = ["first", "second", "third"]
QUERY = {"query": "How much does a parcel weigh?"}


@pytest.fixture
def corpora(released, tmp_path):
    """Return three corpora of equal size."""
    return [renamed_corpus(released, tmp_path / name, name) for name in NAMES]


def test_the_longest_unused_corpus_makes_room(corpora):
    with app_server.serving(open_assistant(corpora)) as server:
        app = server.config.app
        assert isinstance(app, Starlette)
        opened = app.state.opened

        def search(*names):
            body = {**QUERY, "corpora": list(names)}
            reply = httpx.post(f"{server.url}/v1/search", json=body, timeout=60)
            assert reply.status_code == 200 and reply.json()["passages"]
            return {corpus.name for corpus in corpora if corpus.opened()}

        def figures(name):
            lines = httpx.get(f"{server.url}/metrics").text.splitlines()
            return {line.split('"')[1]: float(line.split()[-1]) for line in lines if name in line}

        assert search("first") == {"first"}
        (size,) = opened.held().values()
        assert size > corpora[0].opened().searcher.index.vectors.nbytes > 0
        opened.budget = 5 * size // 2
        assert search("second") == {"first", "second"}
        assert search("first") == {"first", "second"}
        assert search("third") == {"first", "third"}
        assert figures("rag_closed_total{") == {"second": 1}
        assert {*figures("rag_open_bytes{")} == {"first", "third"}
        assert httpx.get(f"{server.url}/ready").status_code == 200
        assert {c.name for c in corpora if c.opened()} == {"first", "third"}, "none was opened"
        assert len(search()) == 2, "all at once are answered, too; which stay open is a race"


@pytest.mark.parametrize("labels", ["public", ("hr",)])
def test_a_listing_opens_no_corpus(corpora, labels):
    one = Corpus(corpora[0].config.model_copy(update={"access": Access(default=labels)}))
    (listed,) = health_of(open_assistant([one]).seen_by(ANYBODY)).datasets
    every = one.release().pinned.rows if labels == "public" else 0
    assert (listed["chunks"], listed["documents"] > 0) == (every, every > 0)
    assert one.opened() is None
    one.open()
    assert health_of(open_assistant([one]).seen_by(ANYBODY)).datasets == [listed]


def test_one_corpus_larger_than_the_budget_stays_open(corpora):
    own = open_assistant(corpora)
    opened = memory.OpenReleases(own.corpora.values(), 1)
    own.warm(lambda: bool(opened.closed))
    assert [*opened.held()] == ["second"] and opened.closed == {"first": 1}
    assert memory.half_of_memory() > 100_000_000
