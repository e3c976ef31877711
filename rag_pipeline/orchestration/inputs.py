"""`files` and `settings`: what a corpus is made from, as assets that Dagster observes.

Each asset has one input of its own, partitioned like itself: the files of documents and queries,
else the settings of what it does. The data version of an input is the hash of what a partition
would be made from, so a changed file, threshold, model or code version makes exactly those
partitions stale, by Dagster's own rules, that `rag plan` would make.
"""

from collections.abc import Callable
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.names import group_name
from rag_pipeline.orchestration.partitions import asset_names, partitions_of
from rag_pipeline.orchestration.unstable import unstable
from rag_pipeline.pipeline.registry import ASSETS

_FILES = "The {name} as files, by a hash of their names, sizes and times."
_SETTINGS = "What {name} are made with and from: a hash of settings, code versions and inputs."


def input_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return the input of an asset; it has the partitions of the asset."""
    return dg.AssetKey([config.corpus, "files" if ASSETS[name].of_files else "settings", name])


def build_inputs(
    config: CorpusConfig, observe: Callable[[dg.DagsterInstance], object]
) -> list[dg.SourceAsset]:
    """Return the inputs of a corpus; "Observe" in the UI calls `observe`, which reports events."""

    built = []
    for name in asset_names(config):
        partitions = partitions_of(config, name)
        about = _FILES if ASSETS[name].of_files else _SETTINGS
        with unstable():
            source = dg.observable_source_asset(
                key=input_key(config, name),
                group_name=f"{group_name(config)}_inputs",
                description=about.format(name=name.replace("_", " ")),
                partitions_def=partitions,
                tags={"corpus": config.corpus},
            )(_looking(observe, partitioned=partitions is not None))
        built.append(source)
    return built


def _looking(
    observe: Callable[[dg.DagsterInstance], object], partitioned: bool
) -> Callable[[dg.OpExecutionContext], Any]:
    """Return what Dagster calls to observe an input: the events of all inputs are reported."""

    def look(context: dg.OpExecutionContext) -> Any:
        observe(context.instance)
        return dg.DataVersionsByPartition({}) if partitioned else dg.ObserveResult()

    return look
