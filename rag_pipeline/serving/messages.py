"""Errors as clients read them: without the server's absolute paths, which only the log shows."""

import json
import logging
import re
from contextvars import ContextVar
from typing import Any

from rag_pipeline.errors import InputError

REQUEST_ID: ContextVar[str] = ContextVar("REQUEST_ID", default="")
"""The id of the request that is answered."""
_OF_DOCUMENT = re.compile(r"^(/v1/(?:documents|pages)/).*", re.DOTALL)
_log = logging.getLogger("rag_pipeline.serving")
_FOLDER = r"""(?:[^/:\n'"]*[^/:\n'"\s]/)"""
_FOLDERS = re.compile(
    rf"(?:file://|(?<![\w./:~%*\]]))/(?=\S){_FOLDER}*|(?:(?<=Not found: )|(?<=… )){_FOLDER}+"
)
"""An absolute path up to its last name; addresses and relative paths do not match.

LanceDB leaves out the first slash after `Not found`, and a shortened message cuts paths.
"""


def told(error: Exception) -> str:
    """Return an error's message for a client, and log the message if it names absolute paths."""
    message = str(error)
    shown = _FOLDERS.sub("", message)
    if shown != message and type(error) is not InputError:  # such a path is the client's own
        _log.warning(json.dumps({"request_id": REQUEST_ID.get(), "error": message}))
    return shown


def logged(path: str) -> str:
    """Return a request's path for logs and traces: short, and without a document's id."""
    return _OF_DOCUMENT.sub(r"\1…", path)[:200]


def without_folders(value: Any) -> Any:
    """Shorten absolute paths to their last name in a text, or in all texts of a record."""
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: without_folders(one) for key, one in value.items()}
    return [without_folders(one) for one in value] if isinstance(value, list | tuple) else value
