"""The component in a project of a user's own, through Dagster's `dg`."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration.component import RagPipeline
from rag_pipeline_tests.testing.corpora import attributes, write_corpus
from rag_pipeline_tests.testing.dagster_projects import environment
from rag_pipeline_tests.testing.forked import run

MODULES = {"dg": "dagster_dg_cli.cli", "dagster": "dagster._cli"}
PROJECT = """
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "theirs"
"""
DEFINITIONS = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""

OURS = """
from functools import cached_property
import dagster as dg
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.in_process import InProcessExecutor
from rag_pipeline import RagPipeline
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace

@dg.executor(name="ours")
def ours(context):
    print("by our executor")
    return InProcessExecutor(retries=RetryMode.ENABLED)

class OurWorkspace(Workspace):
    @cached_property
    def store(self):
        return Store(self.config.store_url + "-of-ours", self.config.corpus)

class OurPipeline(RagPipeline):
    workspace_type = OurWorkspace
    executor = ours
"""


@pytest.fixture
def project(tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "home").mkdir()
    package = tmp_path / "theirs"
    (package / "defs" / "tiny").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    write_defs(tmp_path)
    return tmp_path


def write_defs(project: Path, **changes: object) -> Path:
    file = project / "theirs" / "defs" / "tiny" / "defs.yaml"
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes(**changes)}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def dg(project: Path, *arguments: str, program: str = "dg") -> subprocess.CompletedProcess[str]:
    paths = filter(None, [os.environ.get("PYTHONPATH")])
    variables = {**environment(project), "PYTHONPATH": os.pathsep.join([str(project), *paths])}
    code = f"from {MODULES[program]} import main; main()"
    return run(code, *arguments, env=variables, cwd=project)


@pytest.mark.long
def test_dg_checks_lists_and_scaffolds_a_corpus(project):
    made = dg(project, "scaffold", "defs", "rag_pipeline.RagPipeline", "second")
    assert made.returncode == 0, made.stdout + made.stderr
    second = load_config(project / "theirs" / "defs" / "second" / "defs.yaml")
    assert second.corpus == "second"
    assert list(second.all_configurations) == ["default", "plain"]

    for check in ("yaml", "defs"):
        found = dg(project, "check", check)
        assert found.returncode == 0, found.stdout + found.stderr
    listed = dg(project, "list", "defs", "--json").stdout
    assert "tiny/documents" in listed
    assert "second/documents" in listed

    write_defs(project, gate={"treshold": 1})
    # Without a path, dg checks one file of each component type alone.
    wrong = dg(project, "check", "yaml", "theirs/defs/tiny")
    assert wrong.returncode == 1
    assert "treshold" in wrong.stdout + wrong.stderr

    write_defs(project, serve="worst")
    wrong = dg(project, "check", "defs", "--no-check-yaml")
    assert wrong.returncode == 1
    assert "serve: 'worst' is not one of" in wrong.stdout + wrong.stderr


def test_a_project_runs_a_corpus_with_a_store_and_an_executor_of_its_own(project):
    (project / "theirs" / "ours.py").write_text(OURS)
    file = write_defs(project)
    file.write_text(file.read_text().replace("rag_pipeline.RagPipeline", "theirs.ours.OurPipeline"))
    job = ("-m", "theirs.definitions", "-j", "tiny__update_documents")
    done = dg(project, "job", "execute", *job, program="dagster")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by our executor" in done.stdout
    assert (project / "store-of-ours" / "tiny").is_dir()
    assert not (project / "store").exists()


def test_the_schema_is_that_of_the_corpus_file():
    schema = RagPipeline.get_model_cls().model_json_schema()
    assert schema["additionalProperties"] is False
    assert {"corpus", "documents", "chunkings", "configurations"} <= set(schema["required"])
    threshold = schema["$defs"]["SemanticChunking"]["properties"]["threshold"]
    assert {"type": "string", "pattern": r"\{\{.*\}\}"} in threshold["anyOf"]


def test_environment_variables_stand_in_for_any_value(project, monkeypatch):
    file = write_defs(
        project,
        store="{{ env.TINY_STORE }}/built",
        documents={"path": "documents", "max_bytes": "{{ env('TINY_BYTES') }}"},
    )
    monkeypatch.setenv("TINY_BYTES", "1000")
    with pytest.raises(ConfigError, match=r"store: \{\{ env.TINY_STORE \}\}: .* is not set"):
        load_config(file)
    monkeypatch.setenv("TINY_STORE", "s3://bucket")
    config = load_config(file)
    assert config.store_url == "s3://bucket/built"
    assert config.documents.max_bytes == 1000
