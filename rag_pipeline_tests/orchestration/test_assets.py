"""Shards of steps, retries of failed ones, the results that stay, and the messages."""

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, MissingExtraError, ProviderError, StoreError
from rag_pipeline.indexing import loads, tables
from rag_pipeline.orchestration import checks
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import asset_key, job_name
from rag_pipeline.orchestration.staleness import found_current
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus, write_documents, write_file
from rag_pipeline_tests.testing.dagster_projects import materialize, run, write_project

AT_ONCE = dg.RetryPolicy(max_retries=2, delay=0)
KEY = "recursive_150"


@pytest.fixture
def loaded(tmp_path, config):
    """Return the settings of a corpus with documents and without chunks."""
    build(config.file, "documents")
    return config


def build_chunks(config, instance):
    definitions = build_definitions(config, AT_ONCE, one_run=False)
    job = definitions.resolve_job_def(job_name(config, "chunks"))
    return job.execute_in_process(
        instance=instance,
        partition_key=KEY,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def failing(monkeypatch, errors, document_id="policy/travel.md"):
    """Let the shard with a document fail with one error after the other, then succeed."""
    real, left, built = vars(tables)["build_chunks"], list(errors), []

    def build(workspace, partition, ids, report):
        built.append(tuple(ids))
        if document_id in ids and left:
            raise left.pop(0)
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(tables, "build_chunks", build)
    return built


def one_document_a_shard(monkeypatch):
    monkeypatch.setattr(tables, "MAX_SHARD_DOCUMENTS", 1)


@pytest.mark.parametrize("error", [ProviderError("busy"), OSError("gone")])
def test_a_shard_that_may_do_better_is_tried_again_alone(loaded, instance, monkeypatch, error):
    one_document_a_shard(monkeypatch)
    built = failing(monkeypatch, [error, error])
    result = build_chunks(loaded, instance)
    assert result.success
    assert built.count(("policy/travel.md",)) == 3
    assert sorted(set(built)) == [(name,) for name in sorted(DOCUMENTS)]
    assert len(built) == len(DOCUMENTS) + 2, "the others are built once"
    assert set(Workspace(loaded).chunks(KEY).state()) == set(DOCUMENTS)
    event = instance.get_latest_materialization_event(asset_key(loaded, "chunks"))
    metadata = event.asset_materialization.metadata
    assert metadata["documents_worked_on"].value == len(DOCUMENTS), "of all shards together"


def test_it_is_tried_twice_again_and_what_the_others_did_is_kept(loaded, instance, monkeypatch):
    one_document_a_shard(monkeypatch)
    built = failing(monkeypatch, [ValueError("a bug")] * 9)
    result = build_chunks(loaded, instance)
    assert not result.success
    assert built.count(("policy/travel.md",)) == 3
    assert set(Workspace(loaded).chunks(KEY).state()) == set(DOCUMENTS) - {"policy/travel.md"}

    monkeypatch.undo()
    one_document_a_shard(monkeypatch)
    built = failing(monkeypatch, [])
    assert build_chunks(loaded, instance).success
    assert built == [("policy/travel.md",)], "only what is missing is built"


@pytest.mark.parametrize(
    "error", [ConfigError("chunkings.x: wrong"), MissingExtraError("torch", "local")]
)
def test_what_only_a_person_can_mend_is_not_tried_again(loaded, instance, monkeypatch, error):
    built = failing(monkeypatch, [error])
    result = build_chunks(loaded, instance)
    assert not result.success
    assert len(built) == 1
    (failure,) = result.get_step_failure_events()
    assert failure.step_failure_data.user_failure_data.description == str(error)


def test_the_command_line_says_the_reason_at_once(loaded, monkeypatch):
    built = failing(monkeypatch, [ProviderError("the model is out of order")] * 9)
    with pytest.raises(Exception, match=r"^chunks recursive_150: the model is out of order$"):
        list(run(loaded, "plain"))
    assert len(built) == 1


def test_the_command_line_says_where_a_bug_is(loaded, monkeypatch):
    failing(monkeypatch, [ValueError("a bug")])
    place = r'\(File ".*test_assets\.py", line \d+, in build\)'
    with pytest.raises(Exception, match=rf"^chunks recursive_150: ValueError: a bug {place}$"):
        list(run(loaded, "plain"))


def test_a_dagster_home_that_is_not_there_is_named(corpus_file, monkeypatch, tmp_path):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"DAGSTER_HOME: .*nowhere: no such folder"):
        list(run(load_config(corpus_file)))


# --- documents in shards ---


def load(config, instance, one_run=False):
    job = build_definitions(config, None, one_run).resolve_job_def(job_name(config, "documents"))
    return job.execute_in_process(instance=instance, raise_on_error=False).success


def told(config, instance):
    event = instance.get_latest_materialization_event(asset_key(config, "documents"))
    return event.asset_materialization


def test_facts_and_data_version_are_those_of_one_step(tmp_path, instance, monkeypatch):
    monkeypatch.setattr(loads, "_SHARD_DOCUMENTS", 2)
    write_documents(tmp_path / "documents", {**DOCUMENTS, "empty.txt": ""})
    facts, versions = [], []
    for one_run in (True, False):
        (tmp_path / str(one_run)).mkdir()
        place = {"path": str(tmp_path / "documents")}
        config = load_config(write_file(tmp_path / str(one_run), queries=None, documents=place))
        assert load(config, instance, one_run)
        metadata = told(config, instance).metadata
        left = ("seconds", "dagster/uri")
        facts.append({name: value for name, value in metadata.items() if name not in left})
        versions.append(told(config, instance).tags["dagster/data_version"])
        assert Workspace(config).documents().count() == len(DOCUMENTS)
    assert facts[0] == facts[1]
    assert versions[0] == versions[1]
    assert facts[0]["documents_worked_on"].value == len(DOCUMENTS)
    (run,) = instance.get_runs(limit=1)
    steps = {event.step_key for event in instance.all_logs(run.run_id) if event.step_key}
    assert {step for step in steps if "shard" in step} == {
        f"tiny__documents.tiny__documents_shard[0000{n}]" for n in range(3)
    }


def test_a_shard_that_fails_leaves_the_rest_and_the_next_run_does_what_is_missing(
    tmp_path, instance, monkeypatch
):
    write_documents(tmp_path / "documents", {f"{n}.txt": f"Number {n}." for n in range(6)})
    config = load_config(write_file(tmp_path, queries=None))
    monkeypatch.setattr(loads, "_SHARD_DOCUMENTS", 2)
    monkeypatch.setattr(loads, "MAX_SHARD_DOCUMENTS", 1)
    parsed, wait = [], loads._wait

    def failing(*started):
        parsed.append(started)
        if len(parsed) == 4:
            raise StoreError("torn")
        return wait(*started)

    monkeypatch.setattr(loads, "_wait", failing)
    assert not load(config, instance)
    assert len(parsed) == 6, "the shards beside it are loaded"
    assert Workspace(config).documents().count() == 5, "and what it had committed is kept"
    assert load(config, instance)
    assert len(parsed) == 7, "one document was missing"
    assert Workspace(config).documents().count() == 6
    assert told(config, instance).metadata["documents_worked_on"].value == 1


# The process that has parsed the fourth document is killed before it commits it.
KILLING = """
import os, signal
from pathlib import Path
from rag_pipeline.errors import StoreError
from rag_pipeline.indexing import loads

loads._SHARD_DOCUMENTS, loads.MAX_SHARD_DOCUMENTS = 2, 1
wait, log = loads._wait, Path(%r)

def logged(*started):
    parsed = wait(*started)
    with log.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if len(log.read_text().split()) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return parsed

loads._wait = logged
"""


@pytest.mark.long
def test_a_process_that_is_killed_costs_its_own_shard_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_EXECUTOR", "multiprocess")
    monkeypatch.setenv("RAG_MAX_CONCURRENT", "1")
    write_documents(tmp_path / "documents", {f"{n}.txt": f"Number {n}." for n in range(6)})
    file = write_file(tmp_path, queries=None)
    log = tmp_path / "parsed.log"
    project = write_project(tmp_path, file)
    with project.open("a") as script:
        script.write(KILLING % str(log))

    said = materialize(project, "tiny/documents")
    assert "was terminated by signal 9" in said, "nothing was killed"
    parsed = log.read_text().split()
    assert len(parsed) == 8, "the killed shard is loaded again, and no other"
    assert len(set(parsed)) == 4, "a process a shard, and one for the killed shard's second try"
    config = load_config(file)
    rows = Workspace(config).documents().open().to_arrow().to_pylist()
    assert sorted(row["document_id"] for row in rows) == [f"{n}.txt" for n in range(6)]
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        assert told(config, instance).metadata["documents_worked_on"].value == 6
    assert not [*(tmp_path / "store" / "tiny" / "steps").glob("*")], "what steps hand on is cleared"


# --- ages ---


def test_documents_and_release_have_to_be_as_fresh_as_the_schedule(tmp_path):
    config = load_config(write_corpus(tmp_path, schedule="0 3 * * *"))
    graph = build_definitions(config).resolve_asset_graph()
    aging = {
        key.asset_key.path[-1]: graph.get_check_spec(key).metadata["dagster/freshness_params"].value
        for key in graph.asset_check_keys
        if key.name == "freshness_check"
    }
    assert set(aging) == {"documents", "leaderboard", "release"}
    hours = {params["lower_bound_delta_seconds"] / 3600 for params in aging.values()}
    assert hours == {48}


def test_freshness_is_checked_where_its_result_would_change(tmp_path, instance, monkeypatch):
    config = load_config(write_corpus(tmp_path, schedule="0 3 * * *"))
    documents = asset_key(config, "documents")

    def look(intervals):
        """Run the checks that are requested if the maximum age is so many intervals."""
        monkeypatch.setattr(checks, "_INTERVALS", intervals)
        definitions = build_definitions(config)
        repository = definitions.get_repository_def()
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        tick = repository.get_sensor_def("tiny__freshness").evaluate_tick(context)
        if not tick.run_requests:
            return tick.skip_message
        (request,) = tick.run_requests
        job = definitions.resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(
            asset_selection=set(), asset_check_selection={*request.asset_check_keys}
        )
        ran = chosen.execute_in_process(instance=instance)
        return {e.asset_key: e.passed for e in ran.get_asset_check_evaluations()}

    nothing = "no check of freshness is due"
    assert look(2.0) == nothing, "nothing is made yet"
    instance.report_runless_asset_event(dg.AssetMaterialization(documents))
    assert [look(2.0), look(2.0)] == [{documents: True}, nothing]
    assert [look(0.0), look(0.0)] == [{documents: False}, nothing]
    instance.report_runless_asset_event(found_current(Workspace(config), Step("documents")))
    assert [look(2.0), look(2.0)] == [{documents: True}, nothing]
