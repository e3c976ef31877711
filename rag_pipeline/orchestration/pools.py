"""The pools that ops count towards: one per model provider, and one per corpus's store.

`dagster instance concurrency set POOL N` limits how many ops of a pool run at once, over all runs;
`pools.default_limit` in `dagster.yaml` holds for those without a limit of their own.
"""

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.pipeline.forecast import called_vendor
from rag_pipeline.pipeline.planning import steps, steps_of


def pool_of(config: CorpusConfig, asset: str | None = None) -> str:
    """Return the pool of the op that makes an asset, or, without one, all of a corpus.

    An op counts towards one pool: where several providers are called, that is one named by all.
    """
    counted = steps_of(config, asset) if asset else steps(config)
    called = {called_vendor(config, step) for step in counted}
    providers = sorted(filter(None, called))
    return "+".join(providers) or store_pool(config)


def store_pool(config: CorpusConfig) -> str:
    """Return the pool of ops that only read and write a corpus's store."""
    return identifier(config, "store")
