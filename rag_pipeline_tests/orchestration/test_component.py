"""The component in a project of a user's own, through Dagster's `dg` and in this process."""

import os
import subprocess
from functools import cached_property
from pathlib import Path

import dagster as dg
import numpy as np
import pytest
import yaml

import rag_pipeline.definitions
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration.component import RagPipeline
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import attributes, write_corpus
from rag_pipeline_tests.testing.dagster_projects import environment
from rag_pipeline_tests.testing.forked import run

# Dagster says this of its own code; the project's definitions module silences it for users.
pytestmark = pytest.mark.filterwarnings("ignore:Parameter `execution_type` of function")

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


def dg_cli(project: Path, *arguments: str, program: str = "dg") -> subprocess.CompletedProcess[str]:
    paths = filter(None, [os.environ.get("PYTHONPATH")])
    variables = {**environment(project), "PYTHONPATH": os.pathsep.join([str(project), *paths])}
    code = f"from {MODULES[program]} import main; main()"
    return run(code, *arguments, env=variables, cwd=project)


@pytest.mark.long
def test_dg_checks_lists_and_scaffolds_a_corpus(project):
    made = dg_cli(project, "scaffold", "defs", "rag_pipeline.RagPipeline", "second")
    assert made.returncode == 0, made.stdout + made.stderr
    second = load_config(project / "theirs" / "defs" / "second" / "defs.yaml")
    assert second.corpus == "second"
    assert list(second.all_configurations) == ["default", "plain"]

    for check in ("yaml", "defs"):
        found = dg_cli(project, "check", check)
        assert found.returncode == 0, found.stdout + found.stderr
    listed = dg_cli(project, "list", "defs", "--json").stdout
    assert "tiny/documents" in listed
    assert "second/documents" in listed

    write_defs(project, gate={"treshold": 1})
    # Without a path, dg checks one file of each component type alone.
    wrong = dg_cli(project, "check", "yaml", "theirs/defs/tiny")
    assert wrong.returncode == 1
    assert "treshold" in wrong.stdout + wrong.stderr

    write_defs(project, serve="worst")
    wrong = dg_cli(project, "check", "defs", "--no-check-yaml")
    assert wrong.returncode == 1
    assert "serve: 'worst' is not one of" in wrong.stdout + wrong.stderr


def test_a_project_runs_a_corpus_with_a_store_and_an_executor_of_its_own(project):
    (project / "theirs" / "ours.py").write_text(OURS)
    file = write_defs(project)
    file.write_text(file.read_text().replace("rag_pipeline.RagPipeline", "theirs.ours.OurPipeline"))
    job = ("-m", "theirs.definitions", "-j", "tiny__update_documents")
    done = dg_cli(project, "job", "execute", *job, program="dagster")
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


# --- in this process ---


def write_component(folder: Path, content: object) -> Path:
    """Write a Dagster project with one corpus in `defs/x/defs.yaml`; return that file."""
    package = folder / folder.name  # a name of its own: modules are imported once
    file = package / "defs" / "x" / "defs.yaml"
    file.parent.mkdir(parents=True)
    (package / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{folder.name}"\n'
    )
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def load_component(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    monkeypatch.syspath_prepend(folder)
    return dg.load_from_defs_folder(path_within_project=folder / folder.name)


POST_PROCESSING = {"assets": [{"attributes": {"tags": {"tier": "gold"}}}]}


def test_the_project_and_foreign_ones_load_a_component_alike(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes()}
    write_component(tmp_path, content | {"post_processing": POST_PROCESSING})
    (tmp_path / "tiny.yaml").unlink()
    module = tmp_path / tmp_path.name / "definitions.py"
    monkeypatch.setattr(rag_pipeline.definitions, "__file__", str(module))
    monkeypatch.chdir(tmp_path)
    loaded = load_component(tmp_path, monkeypatch), rag_pipeline.definitions.defs()
    for definitions in loaded:
        graph = definitions.resolve_asset_graph()
        assert graph.get(dg.AssetKey(["tiny", "documents"])).tags["tier"] == "gold"


def test_a_corpus_file_outside_a_project_says_what_it_would_ignore(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_corpus(tmp_path)
    file.write_text(file.read_text() + yaml.safe_dump({"post_processing": POST_PROCESSING}))
    monkeypatch.setattr(rag_pipeline.definitions, "__file__", str(tmp_path / "x" / "y.py"))
    sensor = (
        rag_pipeline.definitions.defs().get_repository_def().get_sensor_def("tiny__has_a_mistake")
    )
    with pytest.raises(ConfigError, match=r"tiny\.yaml: post_processing: only Dagster projects"):
        sensor.evaluate_tick(dg.build_sensor_context())


def causes(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *causes(error.__cause__ or error.__context__)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"chunkings": {"a": {"method": "recusive"}}},
            "chunkings.a.method: 'recusive' is not one of: 'fixed', 'given', 'markdown', ",
        ),
        ({"serve": "worst"}, "serve: 'worst' is not one of: best, default, plain"),
        ({"queues": "x"}, "queues: unknown setting; allowed here: "),
        ({"documents": {"path": "documents", "max_bytes": -1}}, "documents.max_bytes: -1: "),
        ({"corpus": None}, "corpus: None: "),
    ],
)
def test_a_wrong_file_gives_the_same_error_in_dagster_as_on_the_command_line(
    tmp_path, monkeypatch, changes, message
):
    monkeypatch.setenv("DAGSTER_IS_DEFS_VALIDATION_CLI", "1")  # as `dg check defs` does
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes(**changes)}
    file = write_component(tmp_path, content)
    with pytest.raises(ConfigError) as direct:
        load_config(file)
    assert f"{file}: {message}" in str(direct.value)
    with pytest.raises(Exception, match=r"defs\.yaml \(RagPipeline\)") as through_dagster:
        load_component(tmp_path, monkeypatch)
    found = [e for e in causes(through_dagster.value) if isinstance(e, ConfigError)]
    assert [str(e) for e in found] == [str(direct.value)]


def assert_only_tiny_is_there(loaded: dg.Definitions, message: str) -> None:
    keys = loaded.resolve_asset_graph().get_all_asset_keys()
    assert {key.path[0] for key in keys} == {"tiny"}
    told = loaded.get_repository_def().get_sensor_def("worse__has_a_mistake")
    assert told.default_status == dg.DefaultSensorStatus.RUNNING
    with pytest.raises(ConfigError, match=message):
        told.evaluate_tick(dg.build_sensor_context())


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("attributes:\n  serv: best", r"worse\.yaml: serv: unknown setting"),
        ("attributes: [}", r"worse\.yaml: not valid YAML: "),
        ("atributes:", r"worse\.yaml: expected a mapping with .* and `attributes:`"),
        ("attributes:", r"worse\.yaml: corpus: 'tiny' is also the corpus of .*tiny\.yaml; rename"),
    ],
)
def test_a_mistake_in_one_corpus_file_stops_no_other_corpus(
    tmp_path, monkeypatch, written, message
):
    monkeypatch.chdir(tmp_path)
    good = write_corpus(tmp_path).read_text()
    (tmp_path / "worse.yaml").write_text(good.replace("attributes:", written))
    monkeypatch.setattr(rag_pipeline.definitions, "__file__", str(tmp_path / "x" / "y.py"))
    assert_only_tiny_is_there(rag_pipeline.definitions.defs(), message)


def test_a_mistake_stops_no_other_corpus_of_a_users_own_project(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes()}
    file = write_component(tmp_path, content)
    worse = file.parent.with_name("worse") / "defs.yaml"
    worse.parent.mkdir()
    worse.write_text(yaml.safe_dump(content | {"attributes": attributes(serve="worst")}))
    message = r"worse/defs\.yaml: serve: 'worst' is not one of"
    assert_only_tiny_is_there(load_component(tmp_path, monkeypatch), message)


class OwnEmbedder:
    """Two numbers of each text, as a unit vector."""

    identity = "own:lengths"
    dimension = 2

    def batches(self, texts):
        yield list(range(len(texts)))

    def embed(self, texts, input_type):
        rows = np.array([[len(text), text.count(" ") + 1] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class OwnWorkspace(Workspace):
    """A workspace with a store and a model of the project's own."""

    @cached_property
    def store(self):
        return Store(self.config.store_url + "-of-our-own", self.config.corpus)

    def embedder(self, embedding):
        return OwnEmbedder()


class OwnPipeline(RagPipeline):
    workspace_type = OwnWorkspace


def test_a_project_brings_its_own_store_and_models(tmp_path, instance):
    config = load_config(write_corpus(tmp_path))
    definitions = OwnPipeline(config).build_defs(None)
    job = definitions.resolve_job_def("tiny__bring_up_to_date")
    assert job.execute_in_process(instance=instance).success
    assert not (tmp_path / "store").exists()
    workspace = OwnWorkspace(config)
    table = workspace.vector_index("recursive_150.none.minilm").open()
    assert table.schema.field("vector").type.list_size == 2
    sensor = definitions.get_repository_def().get_sensor_def("tiny__stale_partitions")
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
    assert tick.skip_message == "everything is current"
