"""The pools that ops count towards: one per model provider, and one per corpus's store.

`dagster instance concurrency set POOL N` limits how many ops of a pool run at once, over all runs;
`pools.default_limit` in `dagster.yaml` holds for those without a limit of their own.
"""

import time

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.internals import InstanceConcurrencyContext
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.pipeline.dry_run import called_vendor
from rag_pipeline.pipeline.planning import steps, steps_of

_POLL_SECONDS = 1.0


def pool_of(config: CorpusConfig, asset: str | None = None) -> str:
    """Return the pool of the op that makes an asset, or, without one, all of a corpus.

    An op counts towards one pool: where several providers are called, that is one named by all.
    """
    counted = steps_of(config, asset) if asset else steps(config)
    called = {called_vendor(config, step) for step in counted}
    providers = sorted(filter(None, called))
    return "+".join(providers) or store_pool(config)


class PoolPlace:
    """The place that a step has in its pool, left while the step waits for others at work.

    `rag run` holds the corpus over all its steps: one that needs the place of a step that waits for
    it would wait for good, and so would both.
    """

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._step = context.get_step_execution_context().step.key
        self._left = False

    def leave(self, why: str) -> None:
        """Free the place; log why."""
        context = self._context
        context.log.info(why)
        context.instance.event_log_storage.free_concurrency_slot_for_step(
            context.run_id, self._step
        )
        self._left = True

    def take_again(self) -> None:
        """Return once a place is free, if it was left."""
        pool = self._context.op_def.pool
        if self._left and pool:
            claims = InstanceConcurrencyContext(self._context.instance, self._context.run)
            while not claims.claim(pool, self._step):
                time.sleep(_POLL_SECONDS)


def store_pool(config: CorpusConfig) -> str:
    """Return the pool of ops that only read and write a corpus's store."""
    return identifier(config, "store")
