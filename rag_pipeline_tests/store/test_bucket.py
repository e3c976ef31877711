"""A bucket that starts to refuse in the middle of a run: one error, and the release serves on."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.bucket_proxy import Fault
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.model_server import serving

QUESTION = "fee of contract 0"


def write_paid(folder: Path, store: str, url: str) -> Path:
    """Write a corpus of three documents whose contexts a model is paid for."""
    file = write_cycling(folder, 3)
    content = yaml.safe_load(file.read_text())
    attributes = content["attributes"]
    del attributes["queries"]
    attributes |= {
        "store": store,
        "chats": {"small": {"provider": "openai", "model": "m", "base_url": url}},
        "contextualizers": {"said": {"method": "llm", "chat": "small"}},
    }
    attributes["configurations"][0]["contextualizer"] = "said"
    file.write_text(yaml.safe_dump(content))
    return file


def from_the_first_write_of(place: str, what: str, reads_too: bool) -> Fault:
    """Return a fault that strikes once a run has come so far as to write below `place`."""
    struck = False

    def fault(number: int, line: str) -> str:
        nonlocal struck
        writes = not line.startswith(("GET", "HEAD"))
        struck = struck or (writes and place in line)
        return what if struck and (writes or reads_too) else ""

    return fault


@pytest.mark.long
def test_a_bucket_that_refuses_on_the_way_costs_one_error_and_no_call(
    behind, bucket, tmp_path, monkeypatch
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with serving(lambda body: "It is a contract.") as server:
        file = write_paid(tmp_path, bucket, server.url)
        reindex(Workspace(load_config(file)))
        assert len(server.requests) == 3
        served = Corpus.load(file)
        before = served.search(QUESTION, k=1)
        edit(tmp_path, 0, 101)

        # The call has been paid, and its reply can't be written.
        with behind(from_the_first_write_of("tables/contextualized_chunks", "denied", False)):
            outcome = rag("run", file, "--quiet")
            assert outcome.code == 1
            (line,) = outcome.err.splitlines()
            assert line.startswith("error: contextualized_chunks fixed.said: ")
            assert "AccessDenied" in line and "cannot write" in line
            assert Corpus.load(file).search(QUESTION, k=1) == before
            assert served.search(QUESTION, k=1) == before
        assert len(server.requests) == 4

        # The vectors exist, and nothing can be read any more.
        with behind(from_the_first_write_of("tables/vector_index", "slow", True)):
            refused = r"^vector_index\.fixed\.said\.minilm: cannot write: .*SlowDown"
            with pytest.raises(StoreError, match=refused) as told:
                reindex(Workspace(load_config(file)))
            assert "\n" not in str(told.value)
        assert served.search(QUESTION, k=1) == before

        workspace = Workspace(load_config(file))
        reindex(workspace)
        assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
        assert inspect(workspace) == []
        assert "is 101 euros" in Corpus.load(file).search(QUESTION, k=1)[0].text
        served.reopen()
        assert "is 101 euros" in served.search(QUESTION, k=1)[0].text
        asked = Counter(json.dumps(request) for request in server.bodies)
        assert set(asked.values()) == {1} and len(asked) == 4
