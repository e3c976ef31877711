"""The events of the driver, and the steps that it makes after a failure."""

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.indexing import documents, tables
from rag_pipeline.pipeline.driver import Checked, Done, Failed, Made, Started, Waiting, drive
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import rule, write_corpus

TWO = [rule("one", "recursive_150"), rule("two", "markdown")]


@pytest.fixture
def workspace(tmp_path):
    return Workspace(load_config(write_corpus(tmp_path, configurations=TWO)))


def events(workspace, wanted=None, **options):
    return list(drive(workspace, RunPlan(workspace, wanted or steps(workspace.config)), **options))


def test_a_step_is_started_made_checked_and_done_and_then_current(workspace, monkeypatch):
    progress, listed = [], []
    real = documents.list_documents

    def counted(config):
        listed.append(config)
        return real(config)

    monkeypatch.setattr(documents, "list_documents", counted)
    load = [Step("documents")]
    made = events(workspace, load, progress=lambda *told: progress.append(told))
    assert [type(event) for event in made] == [Started, Made, Checked, Done]
    assert len(listed) == 1, "the folder is walked once"
    assert made[0].total == sum(count for _, _, count in progress) == 4
    (again,) = events(workspace, load)
    assert not again.ran
    assert [type(e) for e in events(workspace, load, forced=load)][-1] is Done


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_failed_step_ends_the_run_or_stops_only_the_steps_that_read_it(
    workspace, monkeypatch, keep_going
):
    real, error = vars(tables)["build_chunks"], ConfigError("wrong")

    def build(workspace, key, ids, report):
        if str(key) == "recursive_150":
            raise error
        return real(workspace, key, ids, report)

    monkeypatch.setattr(tables, "build_chunks", build)
    found = events(workspace, keep_going=keep_going)
    (failed,) = (event for event in found if isinstance(event, Failed))
    assert (failed.step, failed.error) == (Step("chunks", "recursive_150"), error)
    if not keep_going:
        assert found[-1] is failed
        return
    waiting = {event.step for event in found if isinstance(event, Waiting)}
    done = {event.step for event in found if isinstance(event, Done)}
    assert Step("retrieval_run", "one") in waiting
    assert {Step("retrieval_run", "two"), Step("leaderboard"), Step("release")} <= done
    assert done | waiting | {failed.step} == set(steps(workspace.config))
