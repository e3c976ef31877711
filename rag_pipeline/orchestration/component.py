"""`rag_pipeline.RagPipeline`: a corpus file as a Dagster component."""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict

from rag_pipeline.config import CorpusConfig, parse_config
from rag_pipeline.orchestration.alerts import build_alerts
from rag_pipeline.orchestration.assets import RETRIES, build_assets
from rag_pipeline.orchestration.automation import build_jobs, build_schedules, build_sensors
from rag_pipeline.orchestration.checks import build_checks
from rag_pipeline.orchestration.prompts import build_prompt_assets
from rag_pipeline.orchestration.step_values import StepValues, step_values_key
from rag_pipeline.workspace import Workspace


class _Attributes(BaseModel):
    """Whatever the file says: `parse_config` checks it, with the same errors everywhere."""

    model_config = ConfigDict(extra="allow")


class RagPipeline(dg.Component):
    """Documents to a searchable, evaluated and released index, from one YAML file."""

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the schema that Dagster reads the attributes by."""
        return _Attributes

    @classmethod
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> "RagPipeline":
        """Validate the attributes; raise ConfigError naming what is wrong."""
        path = Path(context.path)
        file = path / "defs.yaml" if path.is_dir() else path
        return cls(parse_config(attributes.model_dump() if attributes else {}, file))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the corpus's assets, checks, jobs, schedule and sensors."""
        return build_definitions(self.config)


def build_definitions(
    config: CorpusConfig, retries: dg.RetryPolicy | None = RETRIES
) -> dg.Definitions:
    """Return everything that Dagster knows of one corpus."""
    jobs = build_jobs(config)
    return dg.Definitions(
        assets=[
            *build_assets(config, retries),
            *build_prompt_assets(config, retries),
        ],
        asset_checks=build_checks(config, retries),
        jobs=list(jobs.values()),
        schedules=build_schedules(config, jobs),
        sensors=[*build_sensors(config, jobs), *build_alerts(config, jobs)],
        resources={step_values_key(config): StepValues(Workspace(config))},
    )
