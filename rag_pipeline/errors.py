"""Every error that the pipeline raises on purpose, in one tree below `RagPipelineError`.

A message names the value, the place (file, corpus, variant, document) and the cure.
"""

import importlib.metadata
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class RagPipelineError(Exception):
    """Root of all errors with a message for the user; shown without a traceback."""


class ConfigError(RagPipelineError):
    """A corpus file or a setting is wrong."""


class OtherComponentError(ConfigError):
    """A corpus file names a component of another project, which only Dagster can load."""


class InputError(RagPipelineError):
    """A document, query or chunks file is wrong."""


class DocumentError(InputError):
    """One document can't be used; `reason` is what quarantine shows."""

    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(f"{document_id}: {reason}")
        self.document_id = document_id
        self.reason = reason


class UnreadDocumentError(DocumentError):
    """One document could not be read this time; its earlier version stays."""


class StoreError(RagPipelineError):
    """A table, index or manifest is missing, torn or unreachable."""


class BusyError(StoreError):
    """Another run is at work on the corpus."""


class NotReleasedError(StoreError):
    """The corpus has no release yet."""


_SHOWN = 8
"""Least length of a secret part of a key, in characters; shorter ones occur in words."""
_secrets: set[str] = set()


def keep_secret(key: str | None) -> None:
    """Hide a key, and every beginning of it, in all later ProviderErrors."""
    if key and len(key) >= _SHOWN:
        _secrets.add(key)


def without_secrets(text: str) -> str:
    """Replace every known key in `text`, also one that is cut at its end."""
    for key in sorted(_secrets, key=len, reverse=True):
        if key[:_SHOWN] in text:
            for end in range(len(key), _SHOWN - 1, -1):
                text = text.replace(key[:end], "[key]")
    return text


class ProviderError(RagPipelineError):
    """A model or its provider failed; the message shows no known key.

    `status` is the status of the HTTP reply, if there was one.
    """

    status: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(without_secrets(message))


class TransientError(ProviderError):
    """A call failed for a transient reason; `calls` tries it again.

    `retry_after` is the wait that the provider asks for, in seconds. `limited` says that the
    provider refused the call for its rate; `reached` that it answered; `connected` that a server
    accepted the connection; `paid` that the call may be charged.
    """

    def __init__(
        self,
        message: str,
        retry_after: float | None = None,
        *,
        limited: bool = False,
        reached: bool = True,
        connected: bool = True,
        paid: bool = True,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.limited = limited
        self.reached = reached
        self.connected = connected
        self.paid = paid and connected


class GivenUpError(ProviderError):
    """A call got no answer within its time for retries."""


class PaidInVainError(GivenUpError):
    """Several replies that may be charged were late, cut off or garbled."""


class TextsFailedError(ProviderError):
    """A model failed on some texts; `failed` holds the errors, other vectors are kept."""

    def __init__(self, failed: Mapping[str, ProviderError]) -> None:
        text, first = next(iter(failed.items()))
        more = f" (and {len(failed) - 1} more texts)" if len(failed) > 1 else ""
        super().__init__(f"{first}; the text begins {text[:60]!r}{more}")
        self.failed = failed


class CallsStoppedError(ProviderError):
    """No call to a model can work now, so the run stops; answers so far are kept."""


class TextTooLongError(ProviderError):
    """`text` is longer than the model reads."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class MissingExtraError(ProviderError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: {installation(extra)}")


def import_extra(module: str, package: str, extra: str) -> Any:
    """Import a module of an optional package; raise MissingExtraError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra) from None


def installation(extra: str) -> str:
    """Return the command that installs an extra here, without a package index for this package.

    A checkout is installed with the extra; beside a wheel, the requirements of the extra.
    """
    checkout = Path(__file__).parents[1]
    if (checkout / "pyproject.toml").is_file():
        place = "." if Path.cwd() == checkout else str(checkout)
        wanted = ["-e", f"{place}[{extra}]"]
    else:
        wanted = sorted(_requirements(extra))
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def _requirements(extra: str) -> Iterator[str]:
    from packaging.requirements import Requirement

    for line in importlib.metadata.requires("rag_pipeline") or ():
        required = Requirement(line)
        if required.marker is None or not required.marker.evaluate({"extra": extra}):
            continue
        if required.name.replace("-", "_") == "rag_pipeline":
            for other in required.extras:
                yield from _requirements(other)
        else:
            required.marker = None
            yield str(required)


class UnknownReplyError(ProviderError):
    """A dry run needs a reply that is not in the cache; only the dry run sees this error."""


class BudgetError(RagPipelineError):
    """A plan or a run would cost more than `budget_usd`; finished work is kept."""


class CheckFailedError(RagPipelineError):
    """A blocking check refused the data."""
