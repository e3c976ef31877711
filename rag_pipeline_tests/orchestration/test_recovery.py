"""Lost and interrupted runs, and their new requests."""

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.indexing import loads
from rag_pipeline.orchestration import requests
from rag_pipeline.orchestration.automation import outside_hours
from rag_pipeline.orchestration.recovery import PROCESS_TAG, fail_lost_runs, was_interrupted
from rag_pipeline.orchestration.requests import SOURCES_TAG
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import rule, write_corpus, write_documents, write_file
from rag_pipeline_tests.testing.dagster_projects import ask, execute, run

ONE = rule("one")
NEW = {"new.txt": "The fee of the new agreement is 12 euros."}


@pytest.fixture
def loaded(tmp_path):
    """Return a corpus file whose documents are loaded, and one more document is there now."""
    file = write_corpus(tmp_path, configurations=[ONE])
    build(file, "documents")
    write_documents(tmp_path / "documents", NEW)
    return file


def started(instance, tags, status=dg.DagsterRunStatus.STARTED):
    job = "tiny__update_documents"
    return instance.create_run_for_job(
        dg.JobDefinition(name=job, graph_def=dg.GraphDefinition(name=job)), status=status, tags=tags
    )


def asked(file, instance):
    return ask(file, instance, "changed_documents")


def test_a_change_is_asked_for_until_it_is_loaded(loaded, instance):
    (request,), _ = asked(loaded, instance)
    (again,), _ = asked(loaded, instance)
    assert again.tags[SOURCES_TAG] == request.tags[SOURCES_TAG]
    assert execute(loaded, instance, request)
    assert asked(loaded, instance) == ([], "no file has changed since the last load")


def test_outside_of_its_hours_nothing_is_asked_for(loaded, instance):
    now = datetime.now(UTC)
    begin, end = (f"{now + timedelta(hours=h):%H:%M}" for h in (2, 3))
    write_file(loaded.parent, configurations=[ONE], sensor_hours=f"{begin}-{end}")
    waiting = ([], f"outside of sensor_hours, {begin}-{end} UTC")
    for sensor in ("changed_documents", "stale_partitions"):
        assert ask(loaded, instance, sensor) == waiting
    write_file(loaded.parent, configurations=[ONE], sensor_hours=f"{end}-{begin}")
    assert len(asked(loaded, instance)[0]) == 1


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("08:30-18:00", ["08:30", "17:59"], ["08:29", "18:00", "00:00"]),
        ("20:00-06:00", ["20:00", "23:59", "00:00", "05:59"], ["06:00", "19:59"]),
        ("00:00-00:00", ["00:00", "12:00"], []),
    ],
)
def test_hours_may_pass_midnight(config, hours, inside, outside):
    config = config.model_copy(update={"sensor_hours": hours})
    for hour in (*inside, *outside):
        held = outside_hours(config, datetime.strptime(hour, "%H:%M").replace(tzinfo=UTC))
        assert (held is None) == (hour in inside), hour


def test_what_the_command_line_loaded_is_not_asked_for(loaded, instance):
    for result in run(load_config(loaded)):
        if result.step.asset == "documents":
            break
    assert asked(loaded, instance) == ([], "no file has changed since the last load")


def test_after_interruptions_it_waits_longer_each_time_until_the_code_is_loaded_again(
    loaded, instance, monkeypatch
):
    monkeypatch.setattr(requests, "WAITS", (0.0, 0.0, 3600.0))
    for _ in range(3):
        (request,), _ = asked(loaded, instance)
        instance.report_run_failed(started(instance, request.tags))
    found, reason = asked(loaded, instance)
    assert found == []
    assert reason.startswith(
        "the changed files are not loaded: its last 3 runs were interrupted; the next starts at "
    )
    with monkeypatch.context() as patch:
        now = time.time() + 3601
        patch.setattr(time, "time", lambda: now)
        assert len(asked(loaded, instance)[0]) == 1, "it never gives up"
    monkeypatch.setattr(requests, "LOADED", time.time())
    assert len(asked(loaded, instance)[0]) == 1


def test_a_load_that_failed_by_itself_waits_for_a_change(loaded, instance, monkeypatch):
    def wrong(workspace, *more):
        raise ConfigError("documents.metadata: no JSON")

    monkeypatch.setattr(loads, "compare", wrong)
    os.utime(loaded.parent / "documents/policy/travel.md", (1, 1))
    (request,), _ = asked(loaded, instance)
    assert not execute(loaded, instance, request)
    found, reason = asked(loaded, instance)
    assert found == []
    last = "its last run with these inputs did not make it; the run's log has the reason"
    assert reason == f"the changed files are not loaded: {last}"
    os.utime(loaded.parent / "documents/policy/travel.md", (2, 2))
    assert len(asked(loaded, instance)[0]) == 1


def test_a_run_whose_process_was_killed_is_failed_and_asked_for_again(loaded, instance):
    (request,), _ = asked(loaded, instance)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mine = f"{socket.gethostname()}:{process.pid}"
        lost = started(instance, {**request.tags, PROCESS_TAG: mine})
        assert asked(loaded, instance) == ([], "the documents are being loaded")
        process.send_signal(signal.SIGKILL)
    (again,), _ = asked(loaded, instance)
    assert again.tags[SOURCES_TAG] == request.tags[SOURCES_TAG]
    failed = instance.get_run_by_id(lost.run_id)
    assert failed.status == dg.DagsterRunStatus.FAILURE
    assert was_interrupted(instance, failed)


@pytest.mark.parametrize("status", ["STARTING", "STARTED", "CANCELING"])
def test_a_lost_run_is_failed_though_only_the_observing_sensor_is_on(loaded, instance, status):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        tags = {PROCESS_TAG: f"{socket.gethostname()}:{process.pid}"}
    lost = started(instance, tags, dg.DagsterRunStatus(status))
    ask(loaded, instance, "observed_inputs")
    assert instance.get_run_by_id(lost.run_id).status == dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {PROCESS_TAG: f"another-machine:{2**22 + 1}"},
        {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}"},
    ],
)
def test_a_run_elsewhere_or_alive_is_left_alone(instance, tags):
    left = started(instance, tags)
    assert fail_lost_runs(instance, lambda run: True) == []
    assert not instance.get_run_by_id(left.run_id).is_finished


def test_a_process_id_that_was_given_out_again_is_no_sign_of_life(instance, monkeypatch):
    lost = started(instance, {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}"})
    record = instance.get_run_record_by_id(lost.run_id)
    earlier = record._replace(start_time=1.0)  # long before this process
    monkeypatch.setattr(type(instance), "get_run_records", lambda *_, **__: [earlier])
    assert fail_lost_runs(instance, lambda run: True) == [lost.run_id]


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING"])
def test_a_run_that_nobody_launches_any_more_is_failed(loaded, instance, monkeypatch, status):
    lost = started(instance, {}, dg.DagsterRunStatus(status))
    assert asked(loaded, instance) == ([], "the documents are being loaded")
    later = round(time.time()) + 700.0  # stored times are rounded
    monkeypatch.setattr(time, "time", lambda: later)
    assert len(asked(loaded, instance)[0]) == 1
    assert was_interrupted(instance, instance.get_run_by_id(lost.run_id))


def test_runs_of_others_are_left_alone(instance):
    started(instance, {PROCESS_TAG: f"{socket.gethostname()}:{2**22 + 1}"})
    assert fail_lost_runs(instance, lambda run: False) == []
