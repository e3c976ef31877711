"""The sensors in the real daemon, through what goes wrong around it."""

import os
import shutil
import signal
import subprocess

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import TickStatus

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    attributes,
    rule,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.dagster_projects import BOUND, Watched, named, watched
from rag_pipeline_tests.testing.disks import mount
from rag_pipeline_tests.testing.webhooks import VARIABLE

ONE = rule("one")
SETTINGS = {"configurations": [ONE], "schedule": "0 3 1 1 *"}
"""Its schedule is for a day on which no test runs."""
POINTS = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}
STARTED, FAILED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE


def set_characters(file, characters):
    """Change how documents are cut: all that follows from the chunks is stale."""
    chunkings = attributes()["chunkings"]
    chunkings["recursive_150"]["max_characters"] = characters
    write_file(file.parent, **SETTINGS, chunkings=chunkings)


def cut_to(file):
    """Return the most characters of a chunk that is served."""
    hits = Corpus.load(file).search("price of a hotel a night", k=20)
    return max(len(hit.text) for hit in hits)


def edit(file, price):
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", price)
    write_documents(file.parent / "documents", {"policy/travel.md": text})


def last_skip(daemon: Watched) -> str:
    """Return the reason of the last tick of the sensor of stale partitions."""
    (state,) = (s for s in daemon.instance.all_instigator_state() if "stale" in s.instigator_name)
    ticks = daemon.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    return next((tick.tick_data.skip_reason or "" for tick in ticks), "")


def failed_ticks(daemon: Watched) -> int:
    found = (s for s in daemon.instance.all_instigator_state() if "stale" in s.instigator_name)
    return sum(
        tick.status == TickStatus.FAILURE
        for s in found
        for tick in daemon.instance.get_ticks(s.instigator_origin_id, s.selector_id, limit=50)
    )


@pytest.mark.long
@pytest.mark.timeout(4 * BOUND)
def test_a_change_is_served_through_what_goes_wrong_around_it(tmp_path):
    file = write_corpus(tmp_path, **SETTINGS)
    build(file)
    with watched(file) as daemon:
        edit(file, "250 euros")
        served = Corpus.load(file)
        with daemon.daemon() as process:
            killed = daemon.new_run(STARTED, ())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert not daemon.run(killed.run_id).is_finished
        with daemon.daemon():
            assert daemon.ended(killed).status == FAILED
            daemon.rest()
            assert served.release().release_id == "release-000002"
            assert "250 euros" in served.search("price of a hotel a night", k=1)[0].text
            gate = served.release().gate
            assert gate["allowed"]
            assert "release-000001" in gate["against"]
        last = [run for run in daemon.instance.get_runs() if not run.asset_check_selection]
        assert last[0].status == dg.DagsterRunStatus.SUCCESS
        assert {named(run) for run in last} == {("bring_up_to_date", None)}


@pytest.mark.bench
@pytest.mark.timeout(4 * BOUND)
def test_a_cancel_by_hand_holds_until_a_change(tmp_path):
    file = write_corpus(tmp_path, **SETTINGS)
    build(file)
    with watched(file) as daemon, daemon.daemon():
        for characters in range(120, 110, -1):  # a run may end before it is canceled
            known = daemon.known()
            set_characters(file, characters)
            canceled = daemon.new_run(STARTED, known)
            daemon.instance.run_launcher.terminate(canceled.run_id)
            canceled = daemon.ended(canceled)
            if canceled.status == dg.DagsterRunStatus.CANCELED:
                break
        assert canceled.status == dg.DagsterRunStatus.CANCELED
        restarts = dg.DagsterEventType.STEP_RESTARTED
        assert not daemon.instance.all_logs(canceled.run_id, of_type=restarts)
        held = f"its last run was canceled; start {canceled.job_name}"
        daemon.wait(lambda: held in last_skip(daemon))
        known = daemon.known()
        set_characters(file, 105)  # a change asks again
        assert daemon.new_run(dg.DagsterRunStatus.SUCCESS, known)
        daemon.rest()
        assert 80 < cut_to(file) <= 105


@pytest.mark.bench
@pytest.mark.timeout(4 * BOUND)
def test_a_project_and_a_corpus_file_with_a_mistake_go_on_once_they_are_mended(tmp_path):
    file = write_corpus(tmp_path, **SETTINGS)
    build(file)
    with watched(file) as daemon, daemon.daemon():
        project = daemon.project.read_text()
        daemon.project.write_text(project + "def (")
        set_characters(file, 80)
        daemon.wait(lambda: "SyntaxError" in daemon.log.read_text())
        assert not daemon.is_at_rest()
        daemon.project.write_text(project)
        daemon.rest()
        assert cut_to(file) <= 80
        assert daemon.instance.get_runs()[0].status == dg.DagsterRunStatus.SUCCESS

        known = daemon.known()
        file.write_text(file.read_text().replace("chunkings:", "chunkigs:"))
        daemon.wait(lambda: failed_ticks(daemon) > 0)
        assert daemon.known() == known
        set_characters(file, 105)
        assert daemon.new_run(dg.DagsterRunStatus.SUCCESS, known)
        daemon.rest()
        assert 80 < cut_to(file) <= 105


@pytest.mark.bench
@pytest.mark.timeout(2 * BOUND)
def test_a_full_disk_is_told_and_its_end_is_noticed(tmp_path, webhook):
    (tmp_path / "store").mkdir()
    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", tmp_path / "store")
    try:
        file = write_corpus(tmp_path, **SETTINGS, alerts={"webhook_env": VARIABLE})
        build(file)
        before = Corpus.load(file).release().release_id
        with watched(file) as daemon, daemon.daemon():
            filler = tmp_path / "store" / "filler"
            filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free))
            text = file.read_text()
            file.write_text(text.replace("max_characters: 150", "max_characters: 120"))
            failed = daemon.new_run(FAILED, ())
            filler.unlink()
            daemon.rest()
            daemon.wait(lambda: any(failed.run_id in m["text"] for m in webhook.received))
        (told,) = [m["text"] for m in webhook.received if failed.run_id in m["text"]]
        assert "space left" in told or "disk is full" in told
        assert Corpus.load(file).release().release_id != before
        assert cut_to(file) <= 120
        assert inspect(Workspace(load_config(file))) == []
    finally:
        subprocess.run(["umount", "-l", tmp_path / "store"], check=True)


@pytest.mark.bench
@pytest.mark.timeout(12 * BOUND)
def test_the_whole_group_killed_at_ten_points_ends_in_the_undisturbed_release(tmp_path):
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        build(write_corpus(tmp_path / name, **SETTINGS))
    alone, file = tmp_path / "undisturbed" / "tiny.yaml", tmp_path / "killed" / "tiny.yaml"
    with watched(file) as daemon:
        for kill in range(10):
            for each in (alone, file):
                set_characters(each, 70 + 5 * kill)
            with daemon.daemon() as process:
                run = daemon.new_run(STARTED, daemon.known())

                def has_come_so_far(run=run, least=kill) -> bool:
                    events = daemon.instance.all_logs(run.run_id, of_type=POINTS)
                    return len(events) >= least

                daemon.wait(has_come_so_far)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            assert not daemon.run(run.run_id).is_finished, f"kill {kill}"
            with daemon.daemon():
                daemon.rest()
            assert daemon.run(run.run_id).status == FAILED
            build(alone)
            assert contents(file) == contents(alone), f"kill {kill}"
            assert inspect(Workspace(load_config(file))) == []


def contents(file):
    """Return the content of a release, and its metrics."""
    corpus = Corpus.load(file)
    release = corpus.release()
    hits = corpus.search("price of a hotel a night", k=20)
    return release.configuration, release.metrics, [(hit.chunk_id, hit.text) for hit in hits]
