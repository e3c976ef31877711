"""The sensors in the real daemon, with every run in a process of its own."""

import os
import signal
import subprocess

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import TickStatus

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus, write_documents
from rag_pipeline_tests.testing.dagster_projects import (
    command,
    environment,
    named,
    running,
    wait_for,
    write_project,
)

ONE = {
    "name": "one",
    "chunking": "recursive_150",
    "embedding": "minilm",
    "retriever": "dense",
}
BOUND = 240


@pytest.mark.long
@pytest.mark.timeout(3 * BOUND)
def test_an_edit_is_served_through_a_killed_daemon_and_a_broken_corpus_file(tmp_path, run_all):
    corpus = write_corpus(tmp_path, configurations=[ONE])
    run_all(corpus)
    project = write_project(tmp_path, corpus)
    start_sensors(tmp_path, project)
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    served = Corpus.load(corpus)
    log, daemon = tmp_path / "daemon.log", command("dagster-daemon", "run", "-f", project)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:

        def at_rest() -> bool:
            workspace = Workspace(load_config(corpus))
            stale = any(plan_step(workspace, step).must_run for step in steps(workspace.config))
            return not stale and all(run.is_finished for run in instance.get_runs())

        def failed_ticks() -> int:
            found = (s for s in instance.all_instigator_state() if "stale" in s.instigator_name)
            return sum(
                tick.status == TickStatus.FAILURE
                for s in found
                for tick in instance.get_ticks(s.instigator_origin_id, s.selector_id, limit=50)
            )

        with running(daemon, tmp_path, log) as process:
            wait_for(lambda: any(has_started(run) for run in instance.get_runs()), BOUND, log)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        (killed,) = instance.get_runs()
        assert not killed.is_finished
        with running(daemon, tmp_path, log):
            wait_for(lambda: instance.get_run_by_id(killed.run_id).is_finished, BOUND, log)
            wait_for(at_rest, BOUND, log)
            assert served.release().release_id == "release-000002"
            assert "250 euros" in served.search("price of a hotel a night", k=1)[0].text
            gate = served.release().gate
            assert gate["allowed"]
            assert "release-000001" in gate["against"]

            good = corpus.read_text()
            corpus.write_text(good.replace("chunkings:", "chunkigs:"))
            wait_for(lambda: failed_ticks() > 0, BOUND, log)
            corpus.write_text(good.replace("max_characters: 150", "max_characters: 120"))
            assert not at_rest()
            wait_for(at_rest, BOUND, log)
        assert instance.get_run_by_id(killed.run_id).status == dg.DagsterRunStatus.FAILURE
        runs = instance.get_runs()
        assert runs[0].status == dg.DagsterRunStatus.SUCCESS
        assert {named(run) for run in runs} == {("bring_up_to_date", None)}


def has_started(run: dg.DagsterRun) -> bool:
    return run.status == dg.DagsterRunStatus.STARTED


def start_sensors(folder, project):
    subprocess.run(
        command("dagster", "sensor", "start", "--start-all", "-f", project),
        cwd=folder,
        env=environment(folder),
        check=True,
        capture_output=True,
    )
