"""The parts of dagster-aws that a deployment uses, against a server on loopback."""

import importlib
import json
import os

import boto3
import dagster as dg
import pytest
import yaml

from rag_pipeline.config import parse_config
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.loading.bucket import list_bucket
from rag_pipeline.orchestration.secrets import load_secrets
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import attributes


@pytest.fixture
def secrets(bucket, monkeypatch):
    client = boto3.client("secretsmanager")
    client.create_secret(Name="rag/keys", SecretString=json.dumps({"A_KEY": "one", "B_KEY": "two"}))
    client.create_secret(Name="rag/text", SecretString="sk-not-json")
    for name in ("A_KEY", "B_KEY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_secrets_become_variables_and_do_not_replace_any(secrets, monkeypatch):
    monkeypatch.setenv("B_KEY", "mine")
    monkeypatch.setenv("RAG_SECRETS", "rag/keys")
    assert load_secrets() == ["A_KEY"]
    assert (os.environ["A_KEY"], os.environ["B_KEY"]) == ("one", "mine")


def test_the_command_line_reads_them_before_each_command(secrets, monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_SECRETS", "rag/keys")
    rag("doctor", "-c", tmp_path / "none.yaml")
    assert os.environ["A_KEY"] == "one"
    monkeypatch.setenv("RAG_SECRETS", "rag/nothing")
    outcome = rag("doctor", "-c", tmp_path / "none.yaml")
    assert outcome.code == 2
    assert outcome.err.startswith("error: RAG_SECRETS: rag/nothing: ")
    assert rag("--help").code == 0


def test_no_secret_is_asked_for_when_none_is_named(monkeypatch):
    monkeypatch.delenv("RAG_SECRETS", raising=False)
    assert load_secrets() == []


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("rag/nothing", "RAG_SECRETS: rag/nothing: .*create it or correct the name"),
        ("rag/text", "RAG_SECRETS: rag/text: not a JSON object of texts"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named_and_not_shown(secrets, monkeypatch, named, message):
    monkeypatch.setenv("RAG_SECRETS", named)
    with pytest.raises(ConfigError, match=message) as told:
        load_secrets()
    assert "sk-not-json" not in str(told.value)


OURS = """
import dagster as dg
from dagster_aws.s3 import S3Resource
from rag_pipeline import RagPipeline

class OurPipeline(RagPipeline):
    s3 = S3Resource(
        endpoint_url=dg.EnvVar("OUR_ENDPOINT"),
        region_name="us-east-1",
        aws_access_key_id="ours",
        aws_secret_access_key=dg.EnvVar("OUR_SECRET"),
        max_attempts=1,
    )
"""


@pytest.mark.parametrize("executor", ["in_process", "multiprocess"])
def test_documents_of_a_bucket_are_read_by_the_resource_alone(
    bucket, tmp_path, monkeypatch, executor
):
    """Listed by the sensor, listed and fetched by the steps of a run."""
    for key in ("a.txt", "b.txt"):
        boto3.client("s3").put_object(
            Bucket="bucket", Key=f"raw/{key}", Body=b"Text of " + key.encode()
        )
    name = tmp_path.name  # of its own: modules are imported once
    package = tmp_path / name
    (package / "defs" / "x").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "ours.py").write_text(OURS)
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{name}"\n'
    )
    settings = attributes(documents={"s3": "s3://bucket/raw"}, queries=None)
    content = {"type": f"{name}.ours.OurPipeline", "attributes": settings}
    (package / "defs" / "x" / "defs.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OUR_ENDPOINT", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("OUR_SECRET", "secret")
    for variable in [v for v in os.environ if v.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAG_EXECUTOR", executor)

    definitions = dg.load_from_defs_folder(path_within_project=package)
    repository = definitions.get_repository_def()
    sensor = repository.get_sensor_def("tiny__changed_documents")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        assert sensor.evaluate_tick(context).run_requests
        job = definitions.resolve_job_def("tiny__update_documents")
        assert job.execute_in_process(instance=instance).success
        event = instance.get_latest_materialization_event(dg.AssetKey(["tiny", "documents"]))
        assert event.asset_materialization.metadata["documents_worked_on"].value == 2
        defs = package / "defs" / "x" / "defs.yaml"
        defs.write_text(f"{defs.read_text()}\n# edited since\n")
        told = sensor.evaluate_tick(context).skip_message
        assert told == "no file has changed since the last load"

    monkeypatch.setenv("OUR_ENDPOINT", "http://127.0.0.1:9")
    config = parse_config(settings)
    importlib.import_module(f"{name}.ours").OurPipeline(config).build_defs(None)
    told = (
        'documents.s3: s3://bucket/raw: Could not connect to .* "http://127.0.0.1:9/.*tried 2 times'
    )
    with pytest.raises(StoreError, match=told):
        list_bucket(config.documents)
