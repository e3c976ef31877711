"""Find the files of packaged models, open ONNX models, and split their input into batches."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import onnxruntime

from rag_pipeline.errors import ProviderError

Part = TypeVar("Part")
Made = TypeVar("Made")


@cache
def packaged_file(package: str, file: str, sha256: str | None = None) -> Path:
    """Return a file of an installed package.

    Raise ProviderError if the file is missing, or if its hash differs from `sha256`.
    """
    spec = find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    path = next((p for folder in folders if (p := Path(folder) / file).is_file()), None)
    reinstall = f"reinstall {package.replace('_', '-')}"
    if path is None:
        raise ProviderError(f"the packaged model is missing: {package}/{file}; {reinstall}")
    if sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ProviderError(
            f"{path}: not the tested model (SHA-256 differs); {reinstall} as pinned in "
            f"constraints.txt"
        )
    return path


def open_session(model: str | bytes) -> "onnxruntime.InferenceSession":
    """Open a model, given as a path or as bytes. Threads may share the model, and each runs it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # A memory arena keeps the memory of its largest batch (1.8 GiB at 64 x 256 tokens).
    options.enable_cpu_mem_arena = False
    # The threads of a pass wait for each other, which takes 1.3 times the CPU time for a query.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def padded_groups(
    positions: Iterable[int], sizes: Sequence[int], most_size: int
) -> Iterator[list[int]]:
    """Yield positions in groups of at most `most_size` in total.

    All items of a group are padded to the size of its largest item, so each counts with this size.
    An item above `most_size` is a group of its own.
    """
    group: list[int] = []
    width = 0
    for position in positions:
        width = max(width, sizes[position])
        if group and (len(group) + 1) * width > most_size:
            yield group
            group, width = [], sizes[position]
        group.append(position)
    if group:
        yield group


def on_all_cores(run: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
    """Return the result of `run` for each part, in order. A single part needs no other thread."""
    return [run(part) for part in parts] if len(parts) == 1 else list(_threads().map(run, parts))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), "model")
