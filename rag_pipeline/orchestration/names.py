"""Name the assets and jobs of a corpus in Dagster, and define the assets' partitions."""

import json
from functools import cache
from typing import Any

import dagster as dg
from pydantic import ValidationError

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration.internals import (
    AssetAttributesModel,
    ResolutionException,
    TranslatorResolvingInfo,
)
from rag_pipeline.pipeline.planning import steps, upstream
from rag_pipeline.pipeline.registry import ASSETS


def asset_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return an asset's key: prefix, corpus and the asset's name, or the key of `translation`."""
    path = (*config.key_prefix, config.corpus, name)
    if not config.translation.keys() & {"key", "key_prefix"}:
        return dg.AssetKey(path)
    return _translated_key(config.where, path, json.dumps(config.translation, sort_keys=True))


@cache
def _translated_key(where: str, path: tuple[str, ...], translation: str) -> dg.AssetKey:
    return _translated(where, dg.AssetSpec(dg.AssetKey(path)), json.loads(translation)).key


def base_spec(config: CorpusConfig, name: str, **settings: Any) -> dg.AssetSpec:
    """Return an asset's specification with the attributes that the corpus file gives all assets.

    The templates of `translation` read the specification. Raise ConfigError for an unknown
    attribute or a wrong template.
    """
    spec = dg.AssetSpec(
        dg.AssetKey([*config.key_prefix, config.corpus, name]),
        group_name=group_name(config),
        owners=list(config.owners),
        tags={"corpus": config.corpus, **config.tags},
        **settings,
    )
    return _translated(config.where, spec, config.translation) if config.translation else spec


def _translated(where: str, spec: dg.AssetSpec, translation: dict[str, Any]) -> dg.AssetSpec:
    try:
        attributes = AssetAttributesModel.model_validate(translation)
        info = TranslatorResolvingInfo(attributes, dg.ResolutionContext.default(), "translation")
        return info.get_asset_spec(spec, {"spec": spec})
    except (ValidationError, ResolutionException) as error:
        raise ConfigError(f"{where}: translation: {error}") from None


def identifier(config: CorpusConfig, name: str) -> str:
    """Return a name for an op, job or sensor that is unique among corpora."""
    return f"{group_name(config)}__{name}"


def group_name(config: CorpusConfig) -> str:
    """Return the group of a corpus's assets, without the hyphens that Dagster forbids."""
    return config.corpus.replace("-", "_")


def job_name(config: CorpusConfig, asset: str = "") -> str:
    """Return the name of the job that makes one asset, or the whole corpus."""
    return identifier(config, f"update_{asset}" if asset else "bring_up_to_date")


def asset_names(config: CorpusConfig) -> list[str]:
    """Return the names of a corpus's assets. A corpus without BM25 has no lexical index."""
    return list(dict.fromkeys(step.asset for step in steps(config)))


def partitions_of(config: CorpusConfig, asset: str) -> dg.StaticPartitionsDefinition | None:
    """Return an asset's partition keys in the corpus file's order, or None without partitions."""
    if ASSETS[asset].partitioned_by is None:
        return None
    keys = [s.partition for s in steps(config) if s.asset == asset and s.partition is not None]
    return dg.StaticPartitionsDefinition(keys)


def mapping_between(config: CorpusConfig, before: str, after: str) -> dg.PartitionMapping | None:
    """Return the mapping from partitions of `before` to the partitions of `after` that read them.

    Return None if one of the assets has no partitions.
    """
    if ASSETS[before].partitioned_by is None or ASSETS[after].partitioned_by is None:
        return None
    targets: dict[str, set[str]] = {}
    for step in steps(config):
        for read in upstream(config, step) if step.asset == after else ():
            if read.asset == before:
                targets.setdefault(str(read.partition), set()).add(str(step.partition))
    return dg.StaticPartitionMapping(targets)


def upstream_assets(config: CorpusConfig, asset: str) -> list[str]:
    """Return the names of the assets that an asset of this corpus reads from."""
    names = asset_names(config)
    return [before for before in ASSETS[asset].reads if before in names]
