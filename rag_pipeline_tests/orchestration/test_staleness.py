"""Dagster's own staleness beside `rag plan`'s, over every kind of change."""

import shutil

import dagster as dg
import pytest

from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import load_config
from rag_pipeline.orchestration.observing import Observer, graph_of
from rag_pipeline.orchestration.runner import run
from rag_pipeline.orchestration.staleness import stale_in_dagster
from rag_pipeline.pipeline.forecast import forecast
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus, write_documents, write_file
from rag_pipeline_tests.testing.dagster_projects import HOME, ask, execute

EMBEDDINGS = {"minilm": {"provider": "minilm"}}


def settings(maximum=150, **changes):
    return {
        "chunkings": {
            "short": {"method": "recursive", "max_characters": maximum},
            "markdown": {"method": "markdown"},
        },
        "configurations": [
            {"name": "one", "chunking": "short", "embedding": "minilm", "retriever": "hybrid"},
            {"name": "two", "chunking": "markdown", "embedding": "minilm", "retriever": "dense"},
        ],
        "embeddings": EMBEDDINGS,
        **changes,
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with a corpus that is current, and a Dagster home that has seen it built."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text(HOME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(folder / "home"))
        list(run(load_config(write_corpus(folder, **settings()))))
    return folder


@pytest.fixture
def built(tmp_path, template):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "tiny.yaml"


@pytest.fixture
def home(tmp_path, built):
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        yield instance


def planned(file):
    workspace = Workspace(load_config(file))
    return [f.step for f in forecast(workspace) if f.runs]


def observe(file, home):
    return Observer(Workspace(load_config(file))).observe(home)


def seen(file, home):
    """Return what Dagster calls stale, by a graph and a resolver of its own."""
    workspace = Workspace(load_config(file))
    return stale_in_dagster(workspace, home, graph_of(workspace))


def edit(folder):
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(folder / "documents", {"policy/travel.md": text})


def add(folder):
    write_documents(folder / "documents", {"new.txt": "The fee is 12 euros."})


def delete(folder):
    (folder / "documents" / "policy" / "leave.md").unlink()


def threshold(folder):
    write_file(folder, **settings(120))


def model(folder):
    other = {"provider": "minilm", "token_vectors": True}
    write_file(folder, **settings(embeddings={"minilm": other}))


def query(folder):
    file = folder / "queries.jsonl"
    file.write_text(file.read_text().replace("How expensive may", "How costly can"))


EVERYTHING_AFTER_CHUNKS_SHORT = [
    Step("chunks", "short"),
    Step("contextualized_chunks", "short.none"),
    Step("lexical_index", "short.none"),
    Step("vector_index", "short.none.minilm"),
    Step("retrieval_run", "one"),
    Step("answer_presence", "one"),
    Step("answers", "one"),
    Step("entity_scores", "one"),
    Step("context_scores", "one"),
    Step("leaderboard"),
    Step("release"),
]


def test_what_the_command_line_built_is_fresh(built, home):
    assert planned(built) == seen(built, home) == []


def test_dagster_calls_stale_what_a_run_would_make(tmp_path, built, home, monkeypatch):
    for change in (edit, add, delete, threshold, model, query, None):
        with monkeypatch.context() as patch:
            if change is None:
                patch.setattr(RecursiveChunking, "code_version", 99)
            else:
                change(tmp_path)
            if change is edit:
                assert seen(built, home) == [], "nobody has looked yet"
            stale = planned(built)
            assert observe(built, home) == stale
            assert seen(built, home) == stale != []
            if change in (threshold, None):
                assert stale == EVERYTHING_AFTER_CHUNKS_SHORT
            if change is query:
                assert {step.asset for step in stale}.isdisjoint(("chunks", "vector_index"))
        restore(tmp_path)
        assert observe(built, home) == []
        if change is edit:
            assert planned(built) == seen(built, home) == [], "it was taken back"


def test_one_run_leaves_nothing_stale(tmp_path, built, home):
    threshold(tmp_path)
    edit(tmp_path)
    assert observe(built, home) == planned(built)
    bring_up_to_date(built, home)
    assert planned(built) == seen(built, home) == []


def restore(folder):
    shutil.rmtree(folder / "documents")
    write_corpus(folder, **settings())


def test_runs_of_single_partitions_leave_nothing_stale_behind(tmp_path, built, home):
    threshold(tmp_path)
    while requests := ask(built, home)[0]:
        for request in requests:
            execute(built, home, request)
    assert observe(built, home) == planned(built) == []
    assert seen(built, home) == []


def test_what_was_built_without_this_instance_is_reported_as_found(tmp_path, built):
    (tmp_path / "other").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "other")) as other:
        every = steps(load_config(built))
        assert seen(built, other) == every
        assert observe(built, other) == []
        assert seen(built, other) == []
        event = other.get_latest_materialization_event(dg.AssetKey(["tiny", "release"]))
        assert event.asset_materialization.metadata["unchanged"].value is True
        observe(built, other)
        again = other.get_latest_materialization_event(dg.AssetKey(["tiny", "release"]))
        assert again.timestamp == event.timestamp, "once"


def test_a_table_that_is_gone_is_stale_though_no_input_changed(built, home):
    Workspace(load_config(built)).store.drop_table("chunks.short")
    stale = planned(built)
    assert stale[0] == Step("chunks", "short")
    assert observe(built, home) == stale
    assert seen(built, home) == stale
    bring_up_to_date(built, home)
    assert planned(built) == seen(built, home) == []


def bring_up_to_date(file, home):
    assert execute(file, home, dg.RunRequest(job_name="tiny__bring_up_to_date"))
