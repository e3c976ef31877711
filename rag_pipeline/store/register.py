"""A bucket as a register of what machines share, by conditional puts (see `calls.registers`)."""

import os
import random
import time
from dataclasses import dataclass

from rag_pipeline.calls.registers import RegisterChange
from rag_pipeline.errors import StoreError
from rag_pipeline.store.store import Store

_FOLDER = "registers"
_MARK = 8
_LONGEST_PAUSE = 2.0
_PATIENCE = 60.0


@dataclass(eq=False, slots=True)
class BucketRegister:
    """Small objects beside the answers that all corpora of a bucket share."""

    store: Store
    portion_seconds: float = 5.0

    def update(self, name: str, change: RegisterChange) -> None:
        """Write what was changed unless another was first; then change what that one has left."""
        files, path = self.store.files, f"{_FOLDER}/{name}"
        until, pause = time.monotonic() + _PATIENCE, 0.05
        while True:
            found = files.read_tagged(path)
            after = change(found[0][:-_MARK] if found else None)
            if after is None:
                return
            # Two that write the same would each take the other's for its own.
            after += os.urandom(_MARK)
            if files.replace(path, after, found[1]) if found else files.create(path, after):
                return
            if time.monotonic() > until:
                raise StoreError(
                    f"{self.store.address(path)}: others have changed it for {_PATIENCE:g} s "
                    f"without a pause; name a broker or database by RAG_REGISTER"
                )
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
