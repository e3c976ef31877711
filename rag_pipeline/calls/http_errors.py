"""Classify failed attempts: try again, give up on this input, or stop all calls."""

import email.utils
import re
import socket
import time
from collections.abc import Mapping
from math import inf

from rag_pipeline.errors import ProviderError, RefusedError, TransientError

_PASSING = {408, 409, 425, 429}
_CURES = {
    401: "check the key",
    402: "pay the bill",
    403: "check the permissions of the key",
    404: "check model and base_url",
    405: "check model and base_url",
}
"""The remedies for statuses that may concern every input."""
_OUT_OF_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "exceeded your current quota")
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|pa|jina|co)[-_][\w*.-]{8,}|\bBearer\s+[\w.*-]{8,}", re.IGNORECASE
)


def redacted(message: str, *secrets: str | None) -> str:
    """Return a message on one line, at most 300 characters, without keys.

    The `secrets` and all words that look like a key, masked or not, become `[key]`.
    """
    for secret in secrets:
        if secret and len(secret) >= 4:
            message = message.replace(secret, "[key]")
    return " ".join(_KEY_LIKE.sub("[key]", message).split())[:300]


def failure_of_status(
    what: str,
    status: int,
    message: str,
    headers: Mapping[str, str],
    *secrets: str | None,
    stops: str = "",
) -> ProviderError:
    """Return the error of an HTTP reply with an error status.

    `what` names the model, its server and the environment variable of its key. `stops` is an error
    code that usually concerns every input, such as the code for a missing model.
    """
    said = f"{what}: {redacted(message, *secrets) or 'the reply has no reason'} (HTTP {status})"
    error = ProviderError(said)
    if status == 429 and any(word in f"{stops} {message}" for word in _OUT_OF_MONEY):
        error = RefusedError(said, "pay the provider's bill or raise its limit", inf)
    elif status in _PASSING or status >= 500:
        error = TransientError(said, read_retry_after(headers), limited=status == 429, paid=False)
    elif status in _CURES or stops:
        cure = _CURES.get(status, "check model and base_url")
        error = RefusedError(said, cure, inf if status == 401 else 0)
    error.status = status
    return error


def unreachable(what: str, error: BaseException, *secrets: str | None) -> TransientError:
    """Return the error of an attempt without a reply: refused, cut off or timed out."""
    root = error
    connected = not _is_no_connection(error)
    inner = error.__cause__ or error.__context__
    while inner is not None:
        connected &= not _is_no_connection(inner)
        # The deepest OSError has the most precise reason.
        if isinstance(inner, OSError) or (
            not isinstance(root, OSError) and inner is root.__cause__
        ):
            root = inner
        inner = inner.__cause__ or inner.__context__
    reason = str(root) or type(root).__name__
    return TransientError(
        f"{what}: {redacted(reason, *secrets)}", reached=False, connected=connected
    )


def _is_no_connection(error: BaseException) -> bool:
    """Tell, by type or class name, whether an error means that no connection was made."""
    names = {"ConnectError", "ConnectTimeout", "ClientConnectorError"}
    refused = isinstance(error, ConnectionRefusedError | socket.gaierror)
    return refused or type(error).__name__ in names


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header `Retry-After`, or None if it is missing or invalid.

    The header is a number or an HTTP date (RFC 9110, section 10.2.3). The header `retry-after-ms`
    of OpenAI and Azure (milliseconds) has priority.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError):
        return None
    return max(0.0, until.timestamp() - time.time())
