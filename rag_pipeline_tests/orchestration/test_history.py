"""Which runs Dagster's history keeps."""

import os
import time
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import forked
from rag_pipeline_tests.testing.corpora import copy_corpus, rule, write_corpus
from rag_pipeline_tests.testing.dagster_projects import HOME, run, seen

ONE = rule("one")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with a corpus that was run, and the Dagster home that has the runs."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text(HOME)
    kept = {"keep_runs": 20, "runs_days": 9}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(folder / "home"))
        list(run(load_config(write_corpus(folder, configurations=[ONE], retention=kept))))
    return folder


@pytest.fixture
def built(tmp_path, template):
    copy_corpus(template, tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        yield Workspace(load_config(tmp_path / "tiny.yaml")), instance


def test_what_the_command_line_built_is_fresh_to_dagster(tmp_path, built):
    _, instance = built
    assert seen(tmp_path / "tiny.yaml", instance) == []


def empty_runs(instance, number, job="tiny__bring_up_to_date"):
    """Add finished runs that made nothing; return their ids."""
    runs = [
        instance.create_run_for_job(
            dg.JobDefinition(name=job, graph_def=dg.GraphDefinition(name=job)),
            status=dg.DagsterRunStatus.FAILURE,
        )
        for _ in range(number)
    ]
    return [r.run_id for r in runs]


def keeping_none(workspace):
    retention = workspace.config.retention.model_copy(update={"keep_runs": 0})
    return Workspace(workspace.config.model_copy(update={"retention": retention}))


def ids(instance):
    return {r.run_id for r in instance.get_runs()}


def partitions_made(workspace, instance):
    return {
        name: instance.get_materialized_partitions(asset_key(workspace.config, name))
        for name in ("chunks", "vector_index", "retrieval_run", "answers")
    }


def test_runs_beyond_the_number_go_but_for_those_that_made_what_is_there(built):
    workspace, instance = built
    makers = ids(instance)
    made = partitions_made(workspace, instance)
    older, newer = empty_runs(instance, 3), empty_runs(instance, 20)
    workspace.store.write_json(f"steps/{older[0]}/plan.json", [1])
    assert purge_runs(workspace, instance) == 3
    assert ids(instance) == makers | set(newer)
    assert workspace.store.list("steps") == []
    assert partitions_made(workspace, instance) == made
    assert all(made.values())
    event = instance.get_latest_materialization_event(asset_key(workspace.config, "release"))
    assert event.run_id in ids(instance)
    assert purge_runs(workspace, instance) == 0


def test_runs_past_their_days_go_however_few_there_are(built, monkeypatch):
    workspace, instance = built
    makers = ids(instance)
    empty_runs(instance, 2)
    in_ten_days = time.time() + 10 * 86_400
    monkeypatch.setattr(time, "time", lambda: in_ten_days)
    assert purge_runs(workspace, instance) == 2
    assert ids(instance) == makers


def test_runs_of_others_and_at_work_stay(built):
    workspace, instance = built
    makers = ids(instance)
    others = empty_runs(instance, 1, "another__bring_up_to_date")
    (at_work,) = empty_runs(instance, 1)
    instance.report_run_canceling(instance.get_run_by_id(at_work))
    assert purge_runs(keeping_none(workspace), instance) == 0
    assert ids(instance) == makers | {*others, at_work}


def test_a_run_whose_partitions_were_all_made_again_goes(built):
    workspace, instance = built
    workspace = keeping_none(workspace)
    *before, last = steps(workspace.config)
    for step in before:
        made_again(workspace, instance, step)
    assert purge_runs(workspace, instance) == 0
    made_again(workspace, instance, last)
    assert purge_runs(workspace, instance) == 1
    assert ids(instance) == set()


def made_again(workspace, instance, step):
    key = asset_key(workspace.config, step.asset)
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=step.partition))


def test_runs_of_the_command_line_belong_to_a_code_location(built):
    _, instance = built
    (done,) = instance.get_runs()
    assert done.remote_job_origin is not None, "or the timeline leaves it out"
    assert done.remote_job_origin.location_name == "rag_pipeline"
    assert done.remote_job_origin.job_name == done.job_name
    assert done.tags["rag_pipeline/origin"] == "rag run"
    assert done.tags["corpus"] == "tiny"


_OPENED = """
import os
from rag_pipeline.orchestration.one_run import _instance
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        status = 1
        try:
            with _instance() as instance:
                status = instance.get_runs_count()
        finally:
            os._exit(status)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""


def test_runs_that_open_a_new_home_at_once_leave_it_whole(tmp_path: Path) -> None:
    opened = forked.run(_OPENED, env={**os.environ, "DAGSTER_HOME": str(tmp_path)})
    assert opened.stdout == "[0, 0, 0, 0]\n"
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.get_runs_count() == 0
