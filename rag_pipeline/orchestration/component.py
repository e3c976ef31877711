"""Define `rag_pipeline.RagPipeline`, the Dagster component of a corpus file."""

import inspect
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import BaseModel, ConfigDict

from rag_pipeline.config import CorpusConfig, parse_config
from rag_pipeline.errors import ConfigError, RagPipelineError, UnexpectedError, blaming
from rag_pipeline.orchestration import automation
from rag_pipeline.orchestration.alerts import build_alert_of_mistake, build_alerts
from rag_pipeline.orchestration.assets import RETRIES, build_assets
from rag_pipeline.orchestration.checks import build_check, build_freshness
from rag_pipeline.orchestration.executors import chosen_executor
from rag_pipeline.orchestration.names import asset_names
from rag_pipeline.orchestration.observing import Observer, build_observing_sensor, sensor
from rag_pipeline.orchestration.prompts import build_prompt_assets
from rag_pipeline.orchestration.secrets import load_secrets
from rag_pipeline.orchestration.staleness import build_inputs
from rag_pipeline.orchestration.step_values import StepValues, step_values_key
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.pipeline.template import corpus_file_text, write_schema
from rag_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

_CHECKING = "DAGSTER_IS_DEFS_VALIDATION_CLI"
"""Set by `dg check defs` and `dagster definitions validate`. They must fail if a file is wrong."""


class _Attributes(BaseModel):
    """Any attributes. `parse_config` checks them, with the same errors as the command line.

    The JSON schema for `dg check yaml` and editors is the schema of the corpus file.
    """

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *args: Any, **settings: Any) -> dict[str, Any]:
        """Return the schema of a corpus file, with templates for numbers and choices."""
        schema: dict[str, Any] = _with_templates(CorpusConfig.model_json_schema(*args, **settings))
        return schema


def _with_templates(schema: Any) -> Any:
    """Allow `{{ … }}` in a schema for a number, a choice or a name."""
    if isinstance(schema, list):
        return [_with_templates(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _with_templates(part) for key, part in schema.items()}
    plain = inner.get("type") in ("integer", "number", "boolean") or "pattern" in inner
    if not plain or "const" in inner:
        return inner
    shown = {key: inner.pop(key) for key in ("title", "default", "description") if key in inner}
    return {**shown, "anyOf": [inner, {"type": "string", "pattern": r"\{\{.*\}\}"}]}


class ScaffoldSettings(BaseModel):
    """The paths of a new corpus, relative to the project's folder."""

    documents: str = "data/documents"
    queries: str | None = None
    store: str = "data/store"


class CorpusFileScaffolder(dg.Scaffolder[ScaffoldSettings]):
    """A scaffolder that writes the commented corpus file of `rag init`."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldSettings]:
        """Return the Pydantic class of a scaffold's settings."""
        return ScaffoldSettings

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldSettings]) -> None:
        """Write `defs.yaml`. Raise ConfigError for any other format.

        The corpus has the folder's name, with underscores instead of invalid characters.
        """
        file = Path(request.target_path) / "defs.yaml"
        if request.scaffold_format != "yaml" or request.append:
            raise ConfigError(f"{file}: a corpus needs its own YAML file; omit --format")
        name = re.sub(r"[^A-Za-z0-9_-]", "_", file.parent.name)[:64]
        given = request.params
        schema = file.with_suffix(".schema.json")
        paths = given.documents, given.queries, given.store
        file.write_text(corpus_file_text(name, *paths, schema.name, str(file)), encoding="utf-8")
        write_schema(schema)


@dg.scaffold_with(CorpusFileScaffolder)
class RagPipeline(dg.Component):
    """A searchable, evaluated and released index of documents, described by one YAML file.

    A subclass may have its own `workspace_type`, which overrides `Workspace.store`, `embedder`,
    `ask` or `cache`. All assets, checks and sensors use that type. The subclass's `executor`
    replaces RAG_EXECUTOR. The client of `s3` lists and fetches documents in a bucket. The store
    does not use this client.
    """

    workspace_type: type[Workspace] = Workspace
    executor: dg.ExecutorDefinition | None = None
    s3: "S3Resource | None" = None

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the Pydantic class of the component's attributes."""
        return _Attributes

    @classmethod
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> "RagPipeline":
        """Validate the attributes. An error stops only the corpus of this file."""
        load_secrets()
        path = Path(context.path)
        file = path / "defs.yaml" if path.is_dir() else path
        try:
            with blaming(str(file)):
                return cls(parse_config(attributes.model_dump() if attributes else {}, file))
        except RagPipelineError as error:
            return _Mistaken(file, error)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the corpus's assets, checks, jobs, schedule and sensors."""
        # A Dagster resource is a descriptor, so normal attribute access would evaluate it.
        s3 = inspect.getattr_static(self, "s3")
        if s3 is not None:
            self.config.documents.read_with(
                cache(lambda: s3.process_config_and_initialize().get_client())
            )
        try:
            with blaming(self.config.where):
                return build_definitions(
                    self.config, workspace_type=self.workspace_type, executor=self.executor
                )
        except UnexpectedError as error:
            return definitions_of_mistake(Path(self.config.where), error)


class _Mistaken(RagPipeline):
    """The component of a corpus file with an error. Its sensors report the error."""

    def __init__(self, file: Path, error: RagPipelineError) -> None:
        self.file, self.error = file, error

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return definitions_of_mistake(self.file, self.error)


def build_definitions(
    config: CorpusConfig,
    retries: dg.RetryPolicy | None = RETRIES,
    one_run: bool | None = None,
    workspace_type: Callable[[CorpusConfig], Workspace] = Workspace,
    executor: dg.ExecutorDefinition | None = None,
) -> dg.Definitions:
    """Return Dagster's definitions of one corpus.

    RAG_EXECUTOR names the default `executor`. With `one_run`, sensors and the schedule request one
    run of all stale steps. Otherwise they request a run for each stale partition. `one_run` is True
    by default if the executor is `dg.in_process_executor`.
    """
    executor = executor or chosen_executor()
    one_run = executor is dg.in_process_executor if one_run is None else one_run
    workspace = workspace_type(config)
    observer, names = Observer(workspace), asset_names(config)
    jobs = automation.build_jobs(workspace, retries, executor)
    aging, watching = build_freshness(config)
    return dg.Definitions(
        assets=[
            build_inputs(config, observer.observe_all),
            *build_assets(workspace, retries, one_run),
            *build_prompt_assets(config, retries),
        ],
        asset_checks=[
            *(build_check(workspace, n, c, retries) for n in names for c in ASSETS[n].checks),
            *aging,
        ],
        jobs=list(jobs.values()),
        schedules=automation.build_schedules(config, jobs, one_run),
        sensors=[
            build_observing_sensor(config, observer),
            automation.build_documents_sensor(workspace, jobs, one_run),
            automation.build_stale_sensor(workspace, jobs, one_run),
            *watching,
            *build_alerts(workspace, one_run),
        ],
        resources={step_values_key(config): StepValues(workspace)},
    )


def definitions_of_mistake(file: Path, error: RagPipelineError) -> dg.Definitions:
    """Log an error in a corpus file. Return a sensor that fails with it and a sensor that posts it.

    Raise the error if a command only checks the definitions.
    """
    if os.environ.get(_CHECKING):
        raise error
    message = str(error)
    dg.get_dagster_logger().error(message)
    name = re.sub(r"\W", "_", file.parent.name if file.stem == "defs" else file.stem)

    about = f"{file} can't be read, so nothing of its corpus is here: {message}"

    @sensor(f"{name}__has_a_mistake", about)
    def has_a_mistake(context: dg.SensorEvaluationContext) -> None:
        raise ConfigError(message)

    return dg.Definitions(sensors=[has_a_mistake, *build_alert_of_mistake(file, name, message)])
