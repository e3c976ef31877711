"""What dagster-aws does for a deployment, against a server on loopback."""

import json
import os
import sys
from typing import Any

import boto3
import dagster as dg
import pytest
from dagster._core.storage.compute_log_manager import ComputeIOType

from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration.secrets import load_secrets
from rag_pipeline_tests.testing.command_line import rag


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


def test_what_a_step_prints_is_kept_in_the_bucket(bucket, tmp_path):
    logs = {"bucket": "bucket", "prefix": "logs", "local_dir": str(tmp_path / "logs")}
    manager = {
        "module": "dagster_aws.s3.compute_log_manager",
        "class": "S3ComputeLogManager",
        "config": {**logs, "skip_empty_files": True},
    }
    with dg.DagsterInstance.local_temp(str(tmp_path), {"compute_logs": manager}) as instance:
        key = ["run", "compute_logs", "step"]
        with instance.compute_log_manager.capture_logs(key):
            sys.stdout.write("what the step said\n")
            sys.stdout.flush()
        manager_made: Any = instance.compute_log_manager
        assert manager_made.cloud_storage_has_logs(key, ComputeIOType.STDOUT)
    listed = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="logs/")["Contents"]
    assert len(listed) == 1, "an empty stderr is not kept"
