"""A person's cancel of a run or a backfill, which holds until something changes."""

import time

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.partitions.subset.default import DefaultPartitionsSubset

from rag_pipeline.config import load_config
from rag_pipeline.orchestration import requests
from rag_pipeline.orchestration.internals import BulkActionStatus, PartitionBackfill
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import write_documents
from rag_pipeline_tests.testing.dagster_projects import ask, ask_one_run, execute


def test_a_cancel_holds_whatever_progress_the_run_made(file, instance):
    job = dg.JobDefinition(graph_def=dg.GraphDefinition(name="x"), name="tiny__bring_up_to_date")
    (request,), _ = ask_one_run(file, instance)
    run = instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags=dict(request.tags)
    )
    build(file, until="contextualized_chunks")
    instance.report_run_canceled(run)
    requests, reason = ask_one_run(file, instance)
    assert requests == []
    assert reason.endswith(
        "partitions are stale, and its last run was canceled; start tiny__bring_up_to_date, or "
        "change a file or a setting"
    )
    write_documents(file.parent / "documents", {"new.txt": "The fee is 12 euros."})
    (again,), _ = ask_one_run(file, instance, "changed_documents")
    assert execute(file, instance, again)
    workspace = Workspace(load_config(file))
    assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))


@pytest.mark.parametrize("one_run", [True, False])
def test_a_cancel_holds_whatever_started_the_run(file, instance, one_run):
    build(file, until="queries")
    chunks = dg.AssetKey(["tiny", "chunks"])

    def run_of_page(**tags):
        """Return a run from an asset's page, or of a backfill, which has no job of ours."""
        status = dg.DagsterRunStatus.STARTED
        run = dg.DagsterRun("__ASSET_JOB", status=status, tags=tags, asset_selection={chunks})
        return instance.add_run(run)

    def requested():
        requests, _ = ask(file, instance, one_run=one_run)
        return {r.partition_key for r in requests if one_run or "chunks" in r.job_name}

    every = {None} if one_run else {"markdown", "recursive_150"}
    assert requested() == every
    instance.report_run_canceled(run_of_page(**{"dagster/partition": "markdown"}))
    for _ in range(2):
        assert requested() == (set() if one_run else {"recursive_150"})
    instance.report_run_canceled(run_of_page(**{"dagster/backfill": "several"}))
    assert requested() == set()
    other = dg.DagsterRun("tiny__update_documents", status=dg.DagsterRunStatus.SUCCESS)
    instance.add_run(other)
    assert requested() == set(), "somebody started another asset"
    instance.report_run_failed(run_of_page())
    assert requested() == every, "somebody started this one"


@pytest.mark.parametrize("one_run", [True, False])
def test_a_canceled_backfill_holds_whatever_is_canceled_after_it(
    file, instance, monkeypatch, one_run
):
    monkeypatch.setattr(requests, "_PAGE", 50)
    build(file, until="queries")
    chunks = dg.AssetKey(["tiny", "chunks"])
    subset = AssetGraphSubset({chunks: DefaultPartitionsSubset({"markdown"})}, set())  # type: ignore[call-arg]
    backfill = PartitionBackfill.from_asset_graph_subset(
        *("some", time.time(), {}, instance, subset, None, None, None)
    )
    other = {"recursive_150"}

    def requested():
        found, _ = ask(file, instance, one_run=one_run)
        return {r.partition_key for r in found if "chunks" in r.job_name or one_run}

    instance.add_backfill(backfill)
    assert requested() == ({None} if one_run else other), "the backfill makes the other"
    ended = backfill.with_end_timestamp(time.time())
    instance.update_backfill(ended.with_status(BulkActionStatus.CANCELED))
    theirs = {dg.AssetKey("theirs")}
    for _ in range(101):
        status = dg.DagsterRunStatus.CANCELED
        instance.add_run(dg.DagsterRun("__ASSET_JOB", status=status, asset_selection=theirs))
    for _ in range(2):
        assert requested() == (set() if one_run else other)
    instance.add_run(dg.DagsterRun("tiny__update_chunks", status=dg.DagsterRunStatus.FAILURE))
    assert requested() == ({None} if one_run else {"markdown", *other}), "somebody started it"


def test_a_change_after_a_cancel_is_loaded(file, instance):
    build(file)
    documents = dg.AssetKey(["tiny", "documents"])
    status = dg.DagsterRunStatus.STARTED
    run = dg.DagsterRun("__ASSET_JOB", status=status, asset_selection={documents})
    instance.report_run_canceled(instance.add_run(run))
    assert ask_one_run(file, instance) == ([], "everything is current")
    write_documents(file.parent / "documents", {"new.txt": "The fee is 12 euros."})
    requests, _ = ask_one_run(file, instance, "changed_documents")
    assert len(requests) == 1
