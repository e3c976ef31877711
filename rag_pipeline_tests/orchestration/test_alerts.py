import shutil
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import load_python_file
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

import rag_pipeline.definitions
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration import requests
from rag_pipeline.orchestration.alerts import post
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.dagster_projects import ask
from rag_pipeline_tests.testing.webhooks import VARIABLE

ROOT = Path(__file__).parents[2]
WHOLE = "tiny__bring_up_to_date"


def definitions_of(file: Path) -> dg.Definitions:
    return build_definitions(load_config(file), retries=None)


def test_alerts_are_only_there_when_asked_for(tmp_path):
    names = {s.name for s in definitions_of(write_corpus(tmp_path)).sensors}
    looking = ("changed_documents", "observed_inputs", "stale_partitions")
    assert names == {f"tiny__{name}" for name in looking}
    asked = definitions_of(write_corpus(tmp_path, alerts={"webhook_env": VARIABLE}))
    alerting = [s for s in asked.sensors if s.name.endswith("_alerts")]
    assert len(alerting) == 2
    assert {s.default_status for s in alerting} == {dg.DefaultSensorStatus.RUNNING}


def test_a_failed_run_is_posted_with_its_reason(tmp_path, instance, webhook):
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE})
    shutil.rmtree(tmp_path / "documents")
    definitions = definitions_of(file)
    sensor = definitions.resolve_sensor_def("tiny__failure_alerts")
    context = dg.build_sensor_context(instance=instance)
    sensor.evaluate_tick(context)  # from now on
    job = definitions.resolve_job_def("tiny__update_documents")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    webhook.status = 503
    with pytest.raises(ConfigError, match="answered 503"):
        sensor.evaluate_tick(context)
    webhook.status = 200
    webhook.received.clear()
    for _ in range(2):
        sensor.evaluate_tick(context)
    (told,) = webhook.received
    assert told["corpus"] == "tiny"
    assert told["text"].startswith(f"tiny: run {result.run_id} of tiny__update_documents failed: ")
    assert "failed: documents.path: no such file or folder: " in told["text"]


def test_a_failed_run_is_posted_whoever_launched_it(tmp_path, instance, webhook):
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE})
    sensor = definitions_of(file).resolve_sensor_def("tiny__failure_alerts")
    context = dg.build_sensor_context(instance=instance)
    sensor.evaluate_tick(context)  # from now on
    # As an asset's page and backfills launch them.
    ours, other = (
        dg.DagsterRun("__ASSET_JOB", asset_selection={dg.AssetKey([corpus, "documents"])})
        for corpus in ("tiny", "another")
    )
    for failed in (ours, other):
        instance.report_run_failed(instance.add_run(failed))
    sensor.evaluate_tick(context)
    (told,) = webhook.received
    assert told["text"].startswith(f"tiny: run {ours.run_id} of __ASSET_JOB failed: ")


def test_the_alert_names_the_error_of_a_project_that_cannot_be_loaded(tmp_path, instance, webhook):
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE})
    sensor = definitions_of(file).resolve_sensor_def("tiny__failure_alerts")
    context = dg.build_sensor_context(instance=instance)
    sensor.evaluate_tick(context)  # from now on
    project = tmp_path / "theirs.py"
    project.write_text("def (")
    run = instance.add_run(dg.DagsterRun(WHOLE))
    try:  # as the process of a run loads its code location
        load_python_file(str(project), None)
    except SyntaxError:
        found = serializable_error_info_from_exc_info(sys.exc_info())
    said = "Could not load job definition."
    instance.report_engine_event(said, run, EngineEventData.engine_error(found))
    instance.report_run_failed(run)
    sensor.evaluate_tick(context)
    (told,) = webhook.received
    assert 'theirs.py", line 1' in told["text"]
    assert "SyntaxError" in told["text"]


def test_a_mistake_is_posted_once_whether_or_not_the_project_is_loaded_again(
    tmp_path, instance, webhook, monkeypatch
):
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE})
    loaded = definitions_of(file).resolve_sensor_def("tiny__standstill_alerts")
    file.write_text(file.read_text().replace("attributes:", "attributes:\n  serv: best"))
    context = dg.build_sensor_context(instance=instance)
    loaded.evaluate_tick(context)
    (told,) = [m["text"] for m in webhook.received]
    assert told.startswith(f"tiny: waiting for a person: {file}: serv: unknown setting")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rag_pipeline.definitions, "__file__", str(tmp_path / "x" / "y.py"))
    again = rag_pipeline.definitions.defs().get_repository_def()
    sensor = again.get_sensor_def("tiny__standstill_alerts")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert sensor.evaluate_tick(context).skip_message.startswith("nothing has changed")
    sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
    assert len(webhook.received) == 2, "and it is told where nothing was loaded before"


def test_a_standstill_after_interruptions_is_posted(tmp_path, instance, webhook):
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE})
    job = dg.JobDefinition(name=WHOLE, graph_def=dg.GraphDefinition(name=WHOLE))
    for _ in range(2):  # a minute's wait follows the second
        (request,), _ = ask(file, instance, one_run=True)
        instance.report_run_failed(instance.create_run_for_job(job, tags=request.tags))
    sensor = definitions_of(file).resolve_sensor_def("tiny__standstill_alerts")
    sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
    (told,) = [m["text"] for m in webhook.received]
    assert told.startswith("tiny: waiting for a person: its last 2 runs were interrupted; the ")


def test_a_standstill_is_posted_once_and_its_end_too(tmp_path, instance, webhook, monkeypatch):
    one = {"chunking": "markdown", "embedding": "minilm", "retriever": "dense"}
    file = write_corpus(tmp_path, alerts={"webhook_env": VARIABLE}, configurations=[one])
    (tmp_path / "documents" / "broken.pdf").write_bytes(b"%PDF-1.4 torn")
    build(file)

    def tick(cursor: str | None) -> str | None:
        definitions = definitions_of(file)
        repository = definitions.get_repository_def()
        sensor = repository.get_sensor_def("tiny__standstill_alerts")
        context = dg.build_sensor_context(
            instance=instance, repository_def=repository, cursor=cursor
        )
        sensor.evaluate_tick(context)
        return context.cursor

    cursor = tick(None)
    assert [m["text"] for m in webhook.received] == [
        "tiny: waiting for a person: 1 document in quarantine"
    ]
    with monkeypatch.context() as patch:
        patch.delattr(requests, "survey")  # nobody looks at the store while nothing changes
        assert tick(cursor) == cursor
    assert len(webhook.received) == 1
    (tmp_path / "documents" / "broken.pdf").unlink()
    build(file)
    cursor = tick(cursor)
    assert webhook.received[-1]["text"] == "tiny: nothing waits for a person any more"
    shutil.rmtree(tmp_path / "documents")
    tick(cursor)
    missing = f"documents.path: no such file or folder: {tmp_path}/documents"
    assert webhook.received[-1]["text"] == f"tiny: waiting for a person: {missing}"


def test_a_webhook_that_refuses_is_named_by_its_variable_alone(webhook, monkeypatch):
    webhook.status = 403
    with pytest.raises(ConfigError, match=f"{VARIABLE} answered 403") as error:
        post(VARIABLE, "tiny", "text")
    assert "secret-path" not in str(error.value)
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1/secret-path")
    with pytest.raises(ConfigError, match="can't be reached") as error:
        post(VARIABLE, "tiny", "text")
    assert "secret-path" not in str(error.value)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match=f"{VARIABLE} holds no http"):
        post(VARIABLE, "tiny", "text")


def test_the_shipped_instance_file_says_what_dagster_understands(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config()
        assert queue.run_queue_config.max_concurrent_runs == 2
        assert queue.pool_config.default_pool_limit == 4
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 86_400
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] == 300
        assert instance.run_retries_max_retries == 1
