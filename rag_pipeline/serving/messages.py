"""Remove the server's absolute paths from errors for clients. The log contains these paths."""

import json
import logging
import re
from contextvars import ContextVar
from typing import Any

from rag_pipeline.errors import InputError

REQUEST_ID: ContextVar[str] = ContextVar("REQUEST_ID", default="")
"""The id of the current request, or ""."""
_OF_DOCUMENT = re.compile(r"^(/v1/(?:documents|pages)/).*", re.DOTALL)
_log = logging.getLogger("rag_pipeline.serving")
_FOLDER = r"""(?:[^/:\n'"]*[^/:\n'"\s]/)"""
_FOLDERS = re.compile(
    rf"(?:file://|(?<![\w./:~%*\]]))/(?=\S){_FOLDER}*"
    rf"|(?:(?<=Not found: )|(?<=at path )|(?<=… )){_FOLDER}+"
)
"""An absolute path up to its last name. Addresses and relative paths do not match.

Lance leaves out the first slash after `Not found` and `at path`. A shortened message lacks the
start of a path.
"""


def told(error: Exception) -> str:
    """Return an error's message for a client, without absolute paths.

    If the message contains such a path, log the whole message. An InputError is not logged, because
    it contains the client's own path.
    """
    message = str(error)
    shown = _FOLDERS.sub("", message)
    if shown != message and type(error) is not InputError:
        _log.warning(json.dumps({"request_id": REQUEST_ID.get(), "error": message}))
    return shown


def logged(path: str) -> str:
    """Return a request's path for logs: at most 200 characters, without a document's id."""
    return _OF_DOCUMENT.sub(r"\1…", path)[:200]


def without_folders(value: Any) -> Any:
    """Shorten absolute paths to their last name in a text, or in all texts of a record."""
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: without_folders(one) for key, one in value.items()}
    return [without_folders(one) for one in value] if isinstance(value, list | tuple) else value
