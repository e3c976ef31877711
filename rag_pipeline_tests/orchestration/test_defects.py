"""A defect in a plugin that shows while its corpus is planned or loaded."""

import dagster as dg
import pytest

from rag_pipeline.chunking.markdown import MarkdownChunking
from rag_pipeline.config import load_config
from rag_pipeline.definitions import _definitions_of
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration.requests import survey
from rag_pipeline.pipeline.dry_run import plan_run
from rag_pipeline.pipeline.planning import Step, plan_step, stale_steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import attributes, rule, write_corpus, write_file
from rag_pipeline_tests.testing.dagster_projects import ask, execute

BOTH = [rule("one", retriever="hybrid"), rule("two", "markdown", retriever="hybrid")]
NAMED = "markdown: ValueError: out of order (File "


def out_of_order(*_, **__):
    raise ValueError("out of order")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    build(write_corpus(folder, configurations=BOTH, serve="best"))
    return folder


@pytest.fixture(params=["made_from", "fingerprinted"])
def changed(built, tmp_path, monkeypatch, request):
    """Return the file of a corpus with a changed variant, and with a defect in another."""
    chunkings = attributes()["chunkings"]
    chunkings["recursive_150"]["max_characters"] = 140
    write_file(tmp_path, configurations=BOTH, serve="best", chunkings=chunkings)
    monkeypatch.setattr(MarkdownChunking, request.param, out_of_order)
    return built


@pytest.mark.parametrize("one_run", [True, False])
def test_a_defect_holds_only_what_it_keeps_from_being_planned(changed, instance, one_run):
    requests, _ = ask(changed, instance, one_run=one_run)
    assert [r.partition_key for r in requests] == [None if one_run else "recursive_150"]
    workspace = Workspace(load_config(changed))
    stuck = survey(workspace, instance, one_run).causes()
    (cause,) = [line for line in stuck if line.startswith("chunks markdown, and ")]
    assert NAMED in cause
    for sensor in ("observed_inputs", "changed_documents"):
        ask(changed, instance, sensor, one_run=one_run)
    planned = {p.step: p for p in plan_run(workspace)}
    assert NAMED in str(planned[Step("chunks", "markdown")].error)
    assert planned[Step("chunks", "recursive_150")].error is None
    assert {Step("chunks", "markdown"), Step("chunks", "recursive_150")} < {*stale_steps(workspace)}
    if one_run:
        assert not execute(changed, instance, requests[0])
        for step in (Step("answer_presence", "one"), Step("leaderboard"), Step("release")):
            assert not plan_step(workspace, step).must_run
        assert ask(changed, instance, one_run=True)[0] == []


def test_a_defect_stops_no_other_corpus_from_being_loaded(tmp_path, monkeypatch):
    file = write_corpus(tmp_path, configurations=BOTH)
    monkeypatch.setattr(MarkdownChunking, "models_used", out_of_order)
    (sensor,) = _definitions_of(file, {}, None).sensors
    with pytest.raises(ConfigError, match=r"ValueError: out of order .File "):
        sensor.evaluate_tick(dg.build_sensor_context())
