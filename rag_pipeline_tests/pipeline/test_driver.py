"""The events of the driver, and the steps that it makes after a failure."""

import pytest

from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.indexing import documents, tables
from rag_pipeline.pipeline.driver import Checked, Done, Failed, Made, Started, Waiting, drive
from rag_pipeline.pipeline.dry_run import RunPlan, plan_run
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.command_line import rag
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


@pytest.fixture
def broken(monkeypatch):
    """Let the chunker of one variant raise at one document, as a plugin's bug does."""
    real = RecursiveChunking.spans

    def spans(self, document, models):
        if document.document_id == "nda/acme.txt":
            raise KeyError("clause")
        return real(self, document, models)

    monkeypatch.setattr(RecursiveChunking, "spans", spans)
    return "chunkings.recursive_150: nda/acme.txt: KeyError: 'clause' (File "


def test_a_plugins_exception_names_variant_and_document_and_stops_no_other_partition(
    workspace, broken
):
    configured = workspace.config.model_copy(update={"budget_usd": 1.0})
    wanted = [step for step in steps(configured) if step.asset in ("documents", "chunks")]
    plan = RunPlan(Workspace(configured), wanted)
    found = list(drive(plan.workspace, plan, forced=wanted, keep_going=True))
    (failed,) = (event for event in found if isinstance(event, Failed))
    assert failed.step == Step("chunks", "recursive_150")
    assert str(failed.error).startswith(broken)
    assert isinstance(failed.error.__cause__, KeyError)
    done = [event.step for event in found if isinstance(event, Done)]
    assert done == [Step("documents"), Step("chunks", "markdown")]

    # The estimate of a run that pays goes on, too: the failed step's counts are unknown.
    planned = {p.step: p for p in plan_run(plan.workspace)}
    assert planned[Step("chunks", "recursive_150")].chunks is None
    assert str(planned[Step("chunks", "recursive_150")].error).startswith(broken)
    assert planned[Step("vector_index", "markdown.none.minilm")].calls > 0


def test_the_command_line_tells_a_plugins_exception_in_one_line(workspace, broken):
    build(workspace.config.file, until="documents")
    for command in ("plan", "run"):
        outcome = rag(command, workspace.config.file)
        assert outcome.code == 1
        (line,) = outcome.err.splitlines()
        assert broken in line
        assert line.endswith("; `rag --verbose …` prints the traceback")
    for words in (("--verbose", "plan"), ("run", "--verbose")):
        outcome = rag(*words, workspace.config.file)
        assert 'raise KeyError("clause")' in outcome.err
