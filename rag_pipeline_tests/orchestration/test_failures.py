"""Retries of failed steps, the results that stay, and the messages."""

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, MissingExtraError, ProviderError, StoreError
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import asset_key, job_name
from rag_pipeline.orchestration.one_run import run
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus
from rag_pipeline_tests.testing.dagster_projects import materialize, write_project

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


@pytest.mark.parametrize("error", [StoreError("torn"), ProviderError("busy"), OSError("gone")])
def test_a_shard_that_may_do_better_is_tried_again_alone(loaded, instance, monkeypatch, error):
    one_document_a_shard(monkeypatch)
    built = failing(monkeypatch, [error, error])
    result = build_chunks(loaded, instance)
    assert result.success
    assert built.count(("policy/travel.md",)) == 3
    assert sorted(set(built)) == [(name,) for name in sorted(DOCUMENTS)]
    assert len(built) == len(DOCUMENTS) + 2, "the others are built once"
    assert set(Workspace(loaded).chunks(KEY).state()) == set(DOCUMENTS)


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
    place = r'\(File ".*test_failures\.py", line \d+, in build\)'
    with pytest.raises(Exception, match=rf"^chunks recursive_150: ValueError: a bug {place}$"):
        list(run(loaded, "plain"))


@pytest.mark.long
def test_shards_in_processes_of_their_own(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path)
    config = load_config(corpus)
    build(corpus, "contextualized_chunks", "plain")
    project = write_project(tmp_path, corpus)
    monkeypatch.setenv("RAG_EXECUTOR", "multiprocess")
    with project.open("a") as file:  # which each process reads
        file.write("from rag_pipeline.indexing import tables\ntables.MAX_SHARD_DOCUMENTS = 2\n")
    key = "recursive_150.none.minilm"
    materialize(project, "tiny/vector_index", "--partition", key)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        (started,) = instance.get_runs()
        steps = {
            record.event_log_entry.step_key
            for record in instance.get_records_for_run(
                started.run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED
            ).records
        }
        event = instance.get_latest_materialization_event(asset_key(config, "vector_index"))
    assert {step for step in steps if "_shard" in step} == {
        "tiny__vector_index.tiny__vector_index_shard[00000]",
        "tiny__vector_index.tiny__vector_index_shard[00001]",
    }
    assert event.asset_materialization.metadata["documents_worked_on"].value == 4
    workspace = Workspace(config)
    rows = workspace.contextualized_chunks("recursive_150.none").count()
    assert workspace.vector_index(key).count() == rows


def test_a_dagster_home_that_is_not_there_is_named(corpus_file, monkeypatch, tmp_path):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"DAGSTER_HOME: .*nowhere: no such folder"):
        list(run(load_config(corpus_file)))
