"""Turn errors of LanceDB and Arrow into StoreErrors with one-line messages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rag_pipeline.errors import StoreError

_SOURCE_LINE = re.compile(r",? /\S+\.rs:\d+:\d+")
_PANICS = ("PanicException", "RustPanic")
"""Names of Rust's error classes, which can't be imported."""


@contextmanager
def clear_errors(what: str, verb: str = "write") -> Iterator[None]:
    """Turn LanceDB's and Arrow's errors inside the block into a StoreError.

    The message names the table or file `what` and the failed action `verb`.
    """
    try:
        yield
    except BaseException as error:
        if not is_of_store(error):
            raise
        cure = "; `rag doctor --full --repair` and `rag run` repair it" if verb == "search" else ""
        raise StoreError(f"{what}: cannot {verb}: {one_line(error)}{cure}") from error


def is_of_store(error: BaseException) -> bool:
    """Return whether LanceDB and Arrow raise errors of this type about the store."""
    if type(error).__name__ in _PANICS:
        return True
    kinds = OSError | RuntimeError | ValueError
    return isinstance(error, kinds) and not isinstance(error, StoreError)


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without Lance's source lines.

    A message of more than 300 characters keeps its start (the place) and end (the server's reply).
    """
    message = " ".join(_SOURCE_LINE.sub("", str(error)).split())
    return message if len(message) <= 300 else f"{message[:169]} … {message[-128:]}"
