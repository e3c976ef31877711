"""The partitions of each asset, and how a partition follows from those before it."""

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.pipeline.planning import steps, upstream

PARTITIONED = (
    "chunks",
    "contextualized_chunks",
    "lexical_index",
    "vector_index",
    "retrieval_run",
    "relevance_labels",
    "answer_presence",
    "answers",
    "entity_scores",
    "context_scores",
)


def asset_names(config: CorpusConfig) -> list[str]:
    """Return the assets that a corpus has: without BM25 there is no lexical index."""
    return list(dict.fromkeys(step.asset for step in steps(config)))


def partitions_of(config: CorpusConfig, asset: str) -> dg.StaticPartitionsDefinition:
    """Return an asset's partition keys, in the corpus file's order."""
    keys = [step.partition for step in steps(config) if step.asset == asset]
    return dg.StaticPartitionsDefinition([key for key in keys if key is not None])


def mapping_between(config: CorpusConfig, before: str, after: str) -> dg.PartitionMapping | None:
    """Return which partitions of `after` read which of `before`; None where one has none."""
    if before not in PARTITIONED or after not in PARTITIONED:
        return None
    targets: dict[str, set[str]] = {}
    for step in steps(config):
        if step.asset == after and step.partition:
            for source in upstream(config, step):
                if source.asset == before and source.partition:
                    targets.setdefault(source.partition, set()).add(step.partition)
    return dg.StaticPartitionMapping(targets)


def upstream_assets(config: CorpusConfig, asset: str) -> list[str]:
    """Return the names of the assets that an asset reads from."""
    of_asset = [step for step in steps(config) if step.asset == asset]
    return list(dict.fromkeys(b.asset for step in of_asset for b in upstream(config, step)))
