"""The names of a corpus's assets, jobs and ops in Dagster."""

import dagster as dg

from rag_pipeline.config import CorpusConfig


def asset_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return an asset's key: corpus, then name."""
    return dg.AssetKey([config.corpus, name])


def identifier(config: CorpusConfig, name: str) -> str:
    """Return a name for an op, job or sensor that is unique among corpora."""
    return f"{group_name(config)}__{name}"


def group_name(config: CorpusConfig) -> str:
    """Return the group of a corpus's assets; Dagster allows no hyphen in it."""
    return config.corpus.replace("-", "_")


def job_name(config: CorpusConfig, asset: str) -> str:
    """Return the name of the job that materializes one asset of a corpus."""
    return identifier(config, f"update_{asset}")


def update_job_name(config: CorpusConfig) -> str:
    """Return the name of the job that brings all of a corpus up to date."""
    return identifier(config, "bring_up_to_date")
