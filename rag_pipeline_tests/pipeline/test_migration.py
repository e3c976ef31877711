"""The gain and cost of another embedding, predicted from a sample."""

import json
from pathlib import Path

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.indexing import build_shard, finish, open_partition, plan
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.migration import _sample, predict
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.model_replies import DIMENSION
from rag_pipeline_tests.testing.model_server import serving

KEY = "recursive_150.structural.minilm"


def built(folder: Path, url: str, price: float = 2.0) -> Workspace:
    """Return a corpus with the old vectors, and another model of the packaged one's kind."""
    remote = {"provider": "openai", "model": "e", "base_url": url, "dimensions": DIMENSION}
    new = {**remote, "price": {"input": price}}
    embeddings = {"minilm": {"provider": "minilm"}, "new": new}
    workspace = Workspace(load_config(write_corpus(folder, embeddings=embeddings)))
    make(workspace, Step("documents"))
    make(workspace, Step("queries"))
    for asset, key in (
        ("chunks", "recursive_150"),
        ("contextualized_chunks", "recursive_150.structural"),
        ("vector_index", KEY),
    ):
        partition = open_partition(workspace, asset, key)
        todo = plan(partition)
        for shard in todo.shards:
            build_shard(partition, shard)
        finish(partition, todo.orphaned, True)
    return workspace


def test_a_sample_is_embedded_once_and_what_is_left_is_what_a_run_would_send(
    tmp_path: Path,
) -> None:
    with serving() as server:
        workspace = built(tmp_path, server.url)
        chunks = workspace.vector_index(KEY).count()
        found = predict(workspace, "minilm", "new", most_chunks=4)
        sent = [text for body in server.bodies for text in body["input"]]
        assert found.sampled <= 4 < found.chunks == chunks
        assert len(sent) == found.sampled + found.questions
        assert found.left == chunks - found.sampled, "every chunk's text is its own here"
        assert found.usd == pytest.approx(2e-6 * found.tokens)
        assert found.seconds is not None
        again = predict(workspace, "minilm", "new", most_chunks=4)
        assert len(server.bodies) == len({str(body) for body in server.bodies}), "nothing twice"
        assert (again.gain, again.left, again.seconds) == (found.gain, found.left, None)
        whole = predict(workspace, "minilm", "new")
    assert (whole.sampled, whole.left, whole.usd) == (chunks, 0, 0.0)


def test_the_gain_is_the_difference_of_the_shares_and_an_equal_model_has_none(
    tmp_path: Path,
) -> None:
    folder = tmp_path
    embeddings = {"minilm": {"provider": "minilm"}, "same": {"provider": "minilm"}}
    with serving() as server:
        workspace = built(folder, server.url)
        other = predict(workspace, "minilm", "new")
    assert other.gain.mean == pytest.approx(other.shares[1] - other.shares[0])
    assert other.shares[0] == 1.0, "the packaged model answers all questions of the tiny corpus"
    assert other.shares[1] < 1.0, "vectors by chance don't"
    workspace = Workspace(load_config(write_corpus(folder, embeddings=embeddings)))
    same = predict(workspace, "minilm", "same")
    assert (same.gain.mean, same.gain.wins, same.gain.losses) == (0.0, 0, 0)
    assert (same.left, same.usd) == (0, 0.0)


def test_documents_with_and_without_questions_take_turns() -> None:
    sizes = {f"{kind}{n}": 10 for kind in "ab" for n in range(20)}
    chosen = _sample(sizes, {f"a{n}" for n in range(20)}, 100)
    assert len(chosen) == 10
    assert sum(name.startswith("a") for name in chosen) == 5
    assert _sample({"large": 1000}, {"large"}, 100) == ["large"]
    assert _sample({}, set(), 100) == []


def test_the_command_says_what_to_expect(tmp_path: Path) -> None:
    with serving() as server:
        workspace = built(tmp_path, server.url)
        file = str(workspace.config.file)
        said = rag("plan", file, "--migrate", "minilm", "new")
        assert said.code == 0, said.err
        assert "minilm -> new for recursive_150.structural.minilm" in said.out
        assert "gain: AnswerPresence@5 100.0 -> " in said.out
        assert "price: 0.0000 USD for 0 texts" in said.out
        told = json.loads(rag("plan", file, "--migrate", "minilm", "new", "--json").out)
        assert told["left"] == 0


def test_what_can_not_be_foretold_is_said(tmp_path: Path) -> None:
    workspace = Workspace(load_config(write_corpus(tmp_path)))
    for old, new, why in (
        ("minilm", "other", "no embedding 'other'; there are: minilm"),
        ("minilm", "minilm", "embeddings are 'minilm'"),
    ):
        with pytest.raises(ConfigError, match=why):
            predict(workspace, old, new)
    embeddings = {"minilm": {"provider": "minilm"}, "same": {"provider": "minilm"}}
    workspace = Workspace(load_config(write_corpus(tmp_path, embeddings=embeddings)))
    with pytest.raises(StoreError, match=r" has no vectors; run: rag run"):
        predict(workspace, "minilm", "same")
    with pytest.raises(ConfigError, match="no configuration has the embedding 'same'"):
        predict(workspace, "same", "minilm")
