"""One run for all that is stale, where a run's steps share its process."""

from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan
from dagster._core.execution.plan.state import KnownExecutionState

from rag_pipeline import Corpus, indexing
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, ProviderError, StoreError
from rag_pipeline.evaluation import quality
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration import assets
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.internals import (
    InMemoryJob,
    execute_run,
)
from rag_pipeline.orchestration.names import asset_key, asset_names
from rag_pipeline.pipeline.dry_run import plan_run
from rag_pipeline.pipeline.planning import Step, plan_step, stale_steps, steps
from rag_pipeline.store import lease
from rag_pipeline.store.lease import FILE as LEASE
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    paid_contexts,
    write_corpus,
    write_documents,
)
from rag_pipeline_tests.testing.dagster_projects import ask_one_run, execute, named
from rag_pipeline_tests.testing.leases import held
from rag_pipeline_tests.testing.model_server import serving

WHOLE = ("bring_up_to_date", None)


def is_current(file):
    workspace = Workspace(load_config(file))
    return not any(plan_step(workspace, step).must_run for step in steps(workspace.config))


def test_an_empty_store_is_built_by_one_run(file, instance, monkeypatch):
    monkeypatch.setattr(assets, "LOG_SECONDS", 0.0)
    (request,), _ = ask_one_run(file, instance)
    assert named(request) == WHOLE
    assert execute(file, instance, request)
    said = {entry.user_message for entry in instance.all_logs(instance.get_runs()[0].run_id)}
    assert f"chunks markdown: {len(DOCUMENTS)} documents so far" in said
    monkeypatch.undo()
    assert is_current(file)
    assert ask_one_run(file, instance) == ([], "everything is current")

    config = load_config(file)
    version = instance.get_latest_data_version_record(
        asset_key(config, "chunks"), False, "markdown"
    )
    assert version.asset_materialization.metadata["documents_worked_on"].value == len(DOCUMENTS)
    (evaluation,) = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(asset_key(config, "documents"), "documents_are_sound"), limit=5
    )
    assert evaluation.event.asset_check_evaluation.passed

    charted = numbers(config, instance)
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(file.parent / "documents", {"policy/travel.md": text})
    (request,), _ = ask_one_run(file, instance, "changed_documents")
    assert named(request) == WHOLE
    assert execute(file, instance, request)
    assert numbers(config, instance) == charted, "or the charts have holes"
    assert (
        ask_one_run(file, instance)[0] == ask_one_run(file, instance, "changed_documents")[0] == []
    )
    assert "250 euros" in Corpus.load(file).search("price of a hotel a night", k=1)[0].text

    release = Corpus.load(file).release().release_id
    write_documents(file.parent / "documents", {"policy/travel.md": text})  # the same, with a time
    (request,), _ = ask_one_run(file, instance, "changed_documents")
    assert execute(file, instance, request)
    assert ask_one_run(file, instance, "changed_documents") == (
        [],
        "no file has changed since the last load",
    )
    assert Corpus.load(file).release().release_id == release


def numbers(config, instance):
    """Return the names of the numbers of each asset's latest materialization."""
    events = {
        name: instance.get_latest_materialization_event(asset_key(config, name))
        for name in asset_names(config)
    }
    return {
        name: {
            key
            for key, value in event.asset_materialization.metadata.items()
            if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue)
        }
        for name, event in events.items()
    }


def fail_markdown(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the chunks of the partition `markdown` fail, and no others."""
    real = vars(tables)["build_chunks"]

    def build(workspace, partition, ids, report):
        if str(partition) == "markdown":
            raise error
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(tables, "build_chunks", build)


def test_a_plan_over_the_budget_is_refused_before_anything_is_asked(tmp_path, instance):
    with serving(lambda body: "It is of the policies.") as server:
        settings = paid_contexts(tmp_path, server.url, budget_usd=0.02)
        first, *_ = settings["configurations"]
        # Each of the two steps fits into the budget, both together do not.
        more = {**first, "name": "more", "chunking": "recursive_150"}
        file = write_corpus(tmp_path, **settings | {"configurations": [first, more]})
        build(file, until="chunks")
        indexing.update(Workspace(load_config(file)), "chunks", "recursive_150")
        contexts = {
            found.step.partition: found.usd
            for found in plan_run(Workspace(load_config(file)))
            if found.step.asset == "contextualized_chunks"
        }
        assert max(contexts.values()) < 0.02 < sum(contexts.values())
        request = dg.RunRequest(job_name="tiny__bring_up_to_date")
        assert not execute(file, instance, request)
        assert server.requests == []
    (run,) = instance.get_runs()
    assert "more than budget_usd 0.02" in str(instance.all_logs(run.run_id))


def test_what_fails_holds_back_what_reads_it_and_is_not_asked_for_again(
    file, instance, monkeypatch
):
    fail_markdown(monkeypatch, ProviderError("the model is out of order"))
    (request,), _ = ask_one_run(file, instance)
    assert not execute(file, instance, request)
    assert Corpus.load(file).release().configuration == "one"
    requests, reason = ask_one_run(file, instance)
    assert requests == []
    assert reason.startswith(
        "nothing to do before something changes; stuck: chunks markdown, and 7 steps that read "
        "it: its last run with these inputs did not make it; the run's log has the reason"
    )

    monkeypatch.undo()
    write_documents(file.parent / "documents", {"new.txt": "The fee is 12 euros."})
    (request,), _ = ask_one_run(file, instance, "changed_documents")
    assert execute(file, instance, request), "the next load tries it again"
    assert is_current(file)


def test_a_failed_run_goes_on_from_its_failure(file, instance, monkeypatch):
    every = set(steps(load_config(file)))
    failed_first = fail_markdown_once(file, instance, monkeypatch)
    assert of_type(instance, failed_first, "ASSET_MATERIALIZATION_PLANNED") == every
    made = of_type(instance, failed_first, "ASSET_MATERIALIZATION")
    markdown = {step for step in every if "markdown" in (step.partition or "")}
    held = {step for step in every if step.partition == "two"} | markdown
    assert made == every - held
    said = {entry.user_message for entry in instance.all_logs(failed_first.run_id)}
    assert "1 of 2 left out, because chunks markdown failed" in said

    job = build_definitions(load_config(file)).resolve_job_def(failed_first.job_name)
    ops, known = KnownExecutionState.build_resume_retry_reexecution(instance, failed_first)
    assert set(ops) == {*asset_names(load_config(file))} - {"documents", "queries"}
    plan = create_execution_plan(job, step_keys_to_execute=ops, known_state=known)
    again = instance.create_run_for_job(job, execution_plan=plan, tags=dict(failed_first.tags))
    assert execute_run(InMemoryJob(job), again, instance).success
    compared = {Step("leaderboard"), Step("release")}
    assert of_type(instance, again, "ASSET_MATERIALIZATION_PLANNED") == held | compared
    # The first run released "one". Nothing shows that "two" is better.
    assert of_type(instance, again, "ASSET_MATERIALIZATION") == held | {Step("leaderboard")}
    assert is_current(file)


def fail_markdown_once(file, instance, monkeypatch):
    """Return the run of an empty store whose chunks of `markdown` failed."""
    with monkeypatch.context() as patch:
        fail_markdown(patch, ProviderError("the model is out of order"))
        (request,), _ = ask_one_run(file, instance)
        assert not execute(file, instance, request)
    return instance.get_runs()[0]


def of_type(instance, run, kind):
    """Return the partitions of a run's events of a type."""
    found = [
        e.dagster_event for e in instance.all_logs(run.run_id, of_type={dg.DagsterEventType(kind)})
    ]
    return {Step(event.asset_key.path[-1], event.partition) for event in found}


def test_a_canceled_run_begins_no_step_again(file, instance, monkeypatch):
    fail_markdown(monkeypatch, dg.DagsterExecutionInterruptedError())
    (request,), _ = ask_one_run(file, instance)
    assert not execute(file, instance, request)
    result = instance.get_runs()[0]
    (record,) = instance.get_records_for_run(
        result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
    ).records
    told = record.event_log_entry.dagster_event
    assert told.step_failure_data.user_failure_data.description == "The run was canceled."
    assert not instance.all_logs(result.run_id, of_type=dg.DagsterEventType.STEP_RESTARTED)
    assert len(ask_one_run(file, instance)[0]) == 1, "nothing is known of what it did not come to"


def test_a_canceled_run_begins_no_further_step(file, instance, monkeypatch):
    (request,), _ = ask_one_run(file, instance)
    with monkeypatch.context() as patch:

        def cancel(*_, **__):
            instance.report_run_canceling(instance.get_runs()[0])
            raise dg.DagsterExecutionInterruptedError

        patch.setattr(quality, "update_scores", cancel)
        assert not execute(file, instance, request)
    (run,) = instance.get_runs()
    made = {step.asset for step in of_type(instance, run, "ASSET_MATERIALIZATION")}
    assert "retrieval_run" in made, "it came as far as that"
    assert made.isdisjoint({"answers", "entity_scores", "context_scores", "leaderboard"})
    requests, reason = ask_one_run(file, instance)
    assert requests == []
    stale = stale_steps(Workspace(load_config(file)))
    assert reason.startswith(f"{len(stale)} partitions are stale, and its last run was canceled")


def test_a_defect_in_one_step_leaves_no_other_undone(file, instance, monkeypatch):
    with monkeypatch.context() as patch:
        fail_markdown(patch, StoreError("No space left on device"))
        (request,), _ = ask_one_run(file, instance)
        assert not execute(file, instance, request)
    assert Corpus.load(file).release().configuration == "one"
    assert len(ask_one_run(file, instance)[0]) == 1, "a full disk says nothing of the chunks"

    fail_markdown(monkeypatch, KeyError("a bug"))
    (request,), _ = ask_one_run(file, instance)
    assert not execute(file, instance, request)
    assert ask_one_run(file, instance)[0] == []
    failed = instance.get_runs()[0]
    (failure,) = instance.get_records_for_run(
        failed.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
    ).records
    told = failure.event_log_entry.dagster_event.step_failure_data.user_failure_data
    assert told.description.startswith(
        "chunks markdown, and 7 steps that read it: KeyError: 'a bug' (File "
    )


def test_nothing_is_asked_for_while_another_is_at_work(file, instance, tmp_path):
    with held(file) as holder:
        for sensor in ("stale_partitions", "changed_documents"):
            requests, reason = ask_one_run(file, instance, sensor)
            assert requests == []
            assert f"process {holder.pid} on" in reason
    assert len(ask_one_run(file, instance)[0]) == 1


def test_a_run_of_a_single_asset_is_at_work_on_the_corpus(file, instance, monkeypatch):
    documents = dg.RunRequest(job_name="tiny__update_documents")
    assert execute(file, instance, documents)
    real, free = vars(tables)["build_chunks"], []

    def build(workspace, partition, ids, report):
        free.append(workspace.store.files.try_lock(LEASE, {}))
        return real(workspace, partition, ids, report)

    monkeypatch.setattr(tables, "build_chunks", build)
    chunks = dg.RunRequest(job_name="tiny__update_chunks", partition_key="markdown")
    assert execute(file, instance, chunks)
    assert free == [None], "nobody else could begin meanwhile"
    with Workspace(load_config(file)).store.files.try_lock(LEASE, {}):
        pass  # and now they can


def test_what_another_does_meanwhile_is_not_done_again(file, instance, monkeypatch):
    (request,), _ = ask_one_run(file, instance)
    with held(file) as holder:

        def others_turn(seconds):
            holder.stdin.close()
            holder.wait()
            monkeypatch.undo()
            build(file)

        # Not `time.sleep` itself: threads of other tests' logs may sleep meanwhile.
        monkeypatch.setattr(lease, "time", SimpleNamespace(sleep=others_turn))
        assert execute(file, instance, request)
    (done,) = instance.get_runs()
    made = instance.get_records_for_run(
        done.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    ).records
    assert made == []
    assert is_current(file)


def test_a_changed_corpus_file_needs_no_reload(file, instance):
    (request,), _ = ask_one_run(file, instance)
    assert execute(file, instance, request)
    look = looking(file, instance)
    assert look() == "everything is current"
    good = file.read_text()
    file.write_text(good.replace("max_characters: 150", "max_characters: 120"))
    (request,) = look()
    assert named(request) == WHOLE
    file.write_text(good.replace("chunkings:", "chunkigs:"))
    with pytest.raises(ConfigError, match="chunkigs: unknown setting"):
        look()
    file.write_text(good)
    assert look() == "everything is current"


def looking(file, instance):
    """Return a function to the requests of a sensor, or its reason for none."""
    repository = build_definitions(load_config(file), one_run=True).get_repository_def()
    sensor = repository.get_sensor_def("tiny__stale_partitions")

    def look():
        tick = sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, repository_def=repository)
        )
        return list(tick.run_requests or ()) or tick.skip_message

    return look
