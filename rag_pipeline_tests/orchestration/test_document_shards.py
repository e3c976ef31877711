"""Documents loaded in shards by Dagster's executors."""

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.indexing import loads
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import asset_key, job_name
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents, write_file
from rag_pipeline_tests.testing.dagster_projects import materialize, write_project


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
    parsed = []

    def failing(what, count):
        parsed.append(what)
        if len(parsed) == 4:
            raise StoreError("torn")

    monkeypatch.setattr(loads, "advance", failing)
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
advance, log = loads.advance, Path(%r)

def logged(what, count):
    advance(what, count)
    with log.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if len(log.read_text().split()) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

loads.advance = logged
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
