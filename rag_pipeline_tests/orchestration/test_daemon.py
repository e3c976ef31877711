"""The sensors in the real daemon, with every run in a process of its own."""

import subprocess

import dagster as dg
import pytest

from rag_pipeline import Corpus
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
@pytest.mark.timeout(BOUND + 60)
def test_an_edited_document_is_served_with_nobody_doing_anything(tmp_path, run_all):
    corpus = write_corpus(tmp_path, configurations=[ONE])
    run_all(corpus)
    project = write_project(tmp_path, corpus)
    subprocess.run(
        command("dagster", "sensor", "start", "--start-all", "-f", project),
        cwd=tmp_path,
        env=environment(tmp_path),
        check=True,
        capture_output=True,
    )
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    log = tmp_path / "daemon.log"
    served = Corpus.load(corpus)

    def is_served() -> bool:
        return served.release().release_id == "release-000002"

    with (
        running(command("dagster-daemon", "run", "-f", project), tmp_path, log),
        dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance,
    ):
        wait_for(is_served, BOUND, log)
        wait_for(lambda: all(r.is_finished for r in instance.get_runs()), BOUND, log)
        runs = list(reversed(instance.get_runs()))
    assert "250 euros" in served.search("price of a hotel a night", k=1)[0].text
    assert [named(run) for run in runs] == [("bring_up_to_date", None)]
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    gate = served.release().gate
    assert gate["allowed"]
    assert "release-000001" in gate["against"]
