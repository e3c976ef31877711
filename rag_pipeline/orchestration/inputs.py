"""The inputs of a corpus, `files` and `settings`, as assets that Dagster observes.

Each asset has one input with the same partitions: files for documents and queries, else settings.
The data version of an input is a hash of files, settings, code versions and inputs. When it
changes, Dagster's own rules make the same partitions stale that `rag plan` lists.
"""

from collections.abc import Callable
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.internals import unstable
from rag_pipeline.orchestration.names import group_name
from rag_pipeline.orchestration.partitions import asset_names, partitions_of
from rag_pipeline.pipeline.registry import ASSETS

_FILES = "The {name} as files, by a hash of their names, sizes and times."
_SETTINGS = "A hash of the settings, code versions and inputs of the {name}."


def input_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return the key of an asset's input."""
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
    """Return the function that observes an input; `observe` reports the events of all inputs."""

    def look(context: dg.OpExecutionContext) -> Any:
        observe(context.instance)
        return dg.DataVersionsByPartition({}) if partitioned else dg.ObserveResult()

    return look
