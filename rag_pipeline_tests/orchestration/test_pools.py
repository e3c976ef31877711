"""Pools and priorities."""

import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon

from rag_pipeline.config import load_config
from rag_pipeline.orchestration import assets
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import asset_names, job_name
from rag_pipeline.orchestration.one_run import build_update_job
from rag_pipeline.orchestration.pools import pool_of
from rag_pipeline.orchestration.recovery import PROCESS_TAG, fail_lost_runs
from rag_pipeline.pipeline import driver
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.store import lease
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import rule, write_corpus, write_file
from rag_pipeline_tests.testing.dagster_projects import write_project
from rag_pipeline_tests.testing.leases import held

ONE = rule("one")
KEY = "recursive_150.none.minilm"


def test_an_op_counts_towards_its_provider_or_its_store(tmp_path):
    embeddings = {
        "minilm": {"provider": "minilm"},
        "paid": {"provider": "openai", "model": "text-embedding-3-small"},
    }
    settings = {
        "embeddings": embeddings,
        "chunkings": {"recursive_150": {"method": "recursive", "max_characters": 150}},
    }
    both = [ONE, {**ONE, "name": "two", "embedding": "paid"}]
    config = load_config(write_corpus(tmp_path, **settings, configurations=both))
    assert pool_of(config, "documents") == "tiny__store"
    assert pool_of(config, "chunks") == "tiny__store"
    assert pool_of(config, "vector_index") == "minilm+openai"
    one = load_config(write_file(tmp_path, **settings, configurations=[ONE]))
    assert pool_of(one, "vector_index") == "minilm"
    for one_run, expected in ((False, {"minilm", "tiny__store"}), (True, {"minilm"})):
        graph = build_definitions(one, one_run=one_run).resolve_asset_graph()
        assert graph.get(dg.AssetKey(["tiny", "vector_index"])).pools == expected
    for each, pool in ((one, "minilm"), (config, "minilm+openai")):
        job = build_update_job(Workspace(each))
        assert job.get_node_named("vector_index").definition.pools == {pool}
        assert job.get_node_named("chunks").definition.pools == {"tiny__store"}


def test_a_run_whose_process_is_gone_frees_its_place(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        log = instance.event_log_storage
        log.set_concurrency_slots("minilm", 1)
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            tags = {PROCESS_TAG: f"{socket.gethostname()}:{process.pid}"}
        job = dg.JobDefinition(name="job", graph_def=dg.GraphDefinition(name="job"))
        lost = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
        log.claim_concurrency_slot("minilm", lost.run_id, "a-step")
        assert log.get_concurrency_info("minilm").active_slot_count == 1
        assert fail_lost_runs(instance, lambda run: True) == [lost.run_id]
        assert log.get_concurrency_info("minilm").active_slot_count == 0


def test_loading_and_releasing_leave_the_queue_first(config):
    """Dagster's own queue with a run of each job, in reversed order."""
    definitions = build_definitions(config, one_run=False)
    names = [*asset_names(config), ""]
    jobs = {name: job_name(config, name) for name in names}
    tags = {name: definitions.resolve_job_def(job).run_tags for name, job in jobs.items()}
    queued = [dg.DagsterRun(job_name=name, tags=tags[name]) for name in reversed(names)]
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    ahead = [run.job_name for run in daemon._priority_sort(queued)]
    assert set(ahead[:2]) == {"documents", "release"}
    assert set(ahead[2:5]) == {"queries", "leaderboard", ""}
    assert ahead[5:] == [name for name in reversed(names) if name not in ahead[:5]]


@pytest.mark.parametrize(
    ("one_run", "job", "partition"),
    [
        (True, "tiny__update_documents", None),
        (True, "tiny__bring_up_to_date", None),
        (False, "tiny__update_chunks", "recursive_150"),
    ],
)
def test_a_step_that_waits_for_others_keeps_no_place_from_them(
    tmp_path, monkeypatch, one_run, job, partition
):
    file = write_corpus(tmp_path, configurations=[ONE])
    build(file, "documents")
    config = load_config(file)
    write_project(tmp_path, file)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance, held(file) as holder:
        log = instance.event_log_storage
        pools = ("minilm", "tiny__store")
        for pool in pools:
            log.set_concurrency_slots(pool, 1)

        def taken():
            return sum(log.get_concurrency_info(pool).active_slot_count for pool in pools)

        seen = []

        def others_turn(seconds):
            seen.append(taken())
            holder.stdin.close()
            holder.wait()

        def at_work(*_, **__):
            seen.append(taken())
            return ()

        # Not `time.sleep` itself: threads of other tests' logs may sleep meanwhile.
        monkeypatch.setattr(lease, "time", SimpleNamespace(sleep=others_turn))
        # The first call of each when it is its turn.
        made = driver.Made(Step("documents"), Materialized("1", {}))
        drive = lambda *_, wanted=None, **__: [*at_work(), *([] if wanted else [made])]  # noqa: E731
        monkeypatch.setattr(driver, "drive", drive)
        monkeypatch.setattr(assets, "pays", at_work)
        definitions = build_definitions(config, retries=None, one_run=one_run)
        done = definitions.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=partition
        )
        assert done.success
        assert (seen[0], *{*seen[1:]}) == (0, 1)
        assert taken() == 0


def test_a_limit_holds_an_op_back_until_another_has_ended(tmp_path):
    file = write_corpus(tmp_path, configurations=[ONE])
    build(file, "contextualized_chunks")
    config = load_config(file)
    index = Workspace(config).vector_index(KEY)
    job = build_definitions(config, retries=None).resolve_job_def(job_name(config, "vector_index"))
    write_project(tmp_path, file)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        log = instance.event_log_storage
        log.set_concurrency_slots("minilm", 1)
        log.claim_concurrency_slot("minilm", "another-run", "a-step")
        done: list[bool] = []

        def execute():
            result = job.execute_in_process(instance=instance, partition_key=KEY)
            done.append(result.success)

        thread = threading.Thread(target=execute)
        thread.start()
        while not log.get_concurrency_info("minilm").pending_steps:
            assert thread.is_alive(), "it did not wait"
        assert index.count() == 0
        log.free_concurrency_slots_for_run("another-run")
        thread.join()
    assert done == [True]
    assert index.count() > 0
