"""Assign ops to pools: one for each model provider, and one for each corpus's store.

`dagster instance concurrency set POOL N` limits the ops of a pool that run at the same time, over
all runs. `pools.default_limit` in `dagster.yaml` limits every other pool.
"""

import time

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.internals import InstanceConcurrencyContext
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.pipeline.dry_run import called_vendor
from rag_pipeline.pipeline.planning import steps

_POLL_SECONDS = 1.0


def pool_of(config: CorpusConfig, asset: str) -> str:
    """Return the pool of the op that makes an asset.

    An op has one pool. If it calls several providers, the pool's name joins their names.
    """
    called = {called_vendor(config, step) for step in steps(config) if step.asset == asset}
    providers = sorted(filter(None, called))
    return "+".join(providers) or store_pool(config)


class PoolPlace:
    """The slot of a step in its pool, which the step leaves while it waits for another run.

    Otherwise both runs could wait forever: the other run holds the corpus and needs the slot.
    """

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._step = context.get_step_execution_context().step.key
        self._left = False

    def leave(self, why: str) -> None:
        """Free the slot and log the reason."""
        op = self._context
        op.log.info(why)
        op.instance.event_log_storage.free_concurrency_slot_for_step(op.run_id, self._step)
        self._left = True

    def take_again(self) -> None:
        """Wait for a free slot and take it, if the step left its slot."""
        pool = self._context.op_def.pool
        if self._left and pool:
            claims = InstanceConcurrencyContext(self._context.instance, self._context.run)
            while not claims.claim(pool, self._step):
                time.sleep(_POLL_SECONDS)


def store_pool(config: CorpusConfig) -> str:
    """Return the pool of ops that only read and write a corpus's store."""
    return identifier(config, "store")
