"""What each asset says of itself in Dagster's UI: description, kinds, owners, partitions."""

from typing import Any

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.names import asset_key, group_name
from rag_pipeline.orchestration.partitions import partitions_of
from rag_pipeline.pipeline.registry import ASSETS


def shared_settings(config: CorpusConfig, name: str) -> dict[str, Any]:
    """Return what every asset says of itself, as arguments of Dagster's definitions."""
    return {
        "key": asset_key(config, name),
        "group_name": group_name(config),
        "description": _description(config, name),
        "kinds": {ASSETS[name].kind},
        "owners": list(config.owners),
        "tags": {"corpus": config.corpus},
        "partitions_def": partitions_of(config, name),
    }


def _description(config: CorpusConfig, name: str) -> str:
    about = f"\n\n{config.description}" if config.description and not ASSETS[name].reads else ""
    return ASSETS[name].description + about
