"""What LanceDB and Arrow raise -> one StoreError on one line."""

import re
from typing import Any

from rag_pipeline.errors import StoreError

_SOURCE_LINE = re.compile(r",? /\S+\.rs:\d+:\d+")
_PANICS = ("PanicException", "RustPanic")
"""Classes that can't be imported: Rust's, on a file that makes no sense."""


class clear_errors:  # noqa: N801 - reads as a verb where it is used
    """Turn LanceDB's many exceptions for a full disk or a lost store into one StoreError."""

    def __init__(self, what: str, verb: str = "write") -> None:
        self._what = f"{what}: cannot {verb}"
        self._advice = (
            "; `rag doctor --full --repair` and `rag run` mend it" if verb == "search" else ""
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and is_of_store(error):
            raise StoreError(f"{self._what}: {one_line(error)}{self._advice}") from error


def is_of_store(error: BaseException) -> bool:
    """Return whether an error is one that LanceDB and Arrow raise of a store."""
    if type(error).__name__ in _PANICS:
        return True
    kinds = OSError | RuntimeError | ValueError
    return isinstance(error, kinds) and not isinstance(error, StoreError)


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without Lance's source lines, at most 300 long.

    What is too long loses its middle: the place stands first, and the server's answer last.
    """
    message = " ".join(_SOURCE_LINE.sub("", str(error)).split())
    return message if len(message) <= 300 else f"{message[:169]} … {message[-128:]}"
