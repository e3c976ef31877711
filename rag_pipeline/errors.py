"""Define every error that the pipeline raises on purpose, in one tree below `RagPipelineError`.

A message names the value, the place (file, corpus, variant, document) and the remedy.
"""

import importlib.metadata
import importlib.util
import json
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pydantic import ValidationError


class RagPipelineError(Exception):
    """The base class of all errors with a message for the user, shown without a traceback."""


class ConfigError(RagPipelineError):
    """A corpus file or a setting is wrong."""


class OtherComponentError(ConfigError):
    """A corpus file names a component of another project, which only Dagster can load."""


class InputError(RagPipelineError):
    """Something that the user gave is invalid, such as a document, a query or a file."""


class DocumentError(InputError):
    """One document can't be used. The quarantine table shows `reason`."""

    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(f"{document_id}: {reason}")
        self.document_id = document_id
        self.reason = reason


class UnreadDocumentError(DocumentError):
    """One document could not be read this time. Its earlier version stays in the tables."""


class StoreError(RagPipelineError):
    """A table, index or manifest is missing, incomplete or unreachable."""


class BusyError(StoreError):
    """Another run is at work on the corpus."""


class NotReleasedError(StoreError):
    """The corpus has no release yet."""


class UnknownReleaseError(NotReleasedError, InputError):
    """The corpus has no release with this id."""


class RequestEndedError(RagPipelineError):
    """The work for a request stops because the request has ended."""


_SHOWN = 8
"""Minimum length of a key's hidden part, in characters. Shorter parts may occur in words."""
_secrets: set[str] = set()
_ECHO = 16
"""Minimum length of a repeated part of a text, in letters and digits: about three words."""


def keep_secret(key: str | None) -> None:
    """Hide a key of at least 8 characters in all later ProviderErrors, even if it is cut off."""
    if key and len(key) >= _SHOWN:
        _secrets.add(key)


def without_secrets(text: str) -> str:
    """Return `text` with every known key hidden, even if the key's end is cut off."""
    for key in sorted(_secrets, key=len, reverse=True):
        if key[:_SHOWN] in text:
            for end in range(len(key), _SHOWN - 1, -1):
                text = text.replace(key[:end], "[key]")
    return text


def without_echo(message: str, texts: Sequence[str]) -> str:
    """Return a message in which `[text]` replaces each part that also occurs in `texts`.

    Only letters and digits are compared. Parts with fewer than 16 letters and digits stay.
    """
    plain = re.sub(r"\\[nrt]", "  ", message)
    places = [place for place, character in enumerate(plain) if character.isalnum()]
    said = _letters(plain)
    sent = "\n".join(map(_letters, texts))
    shown = list(message)
    for start in range(len(said) - _ECHO + 1):
        if said[start : start + _ECHO] in sent:
            first, last = places[start], places[start + _ECHO - 1]
            shown[first : last + 1] = "\0" * (last + 1 - first)
    return re.sub("\0+", "[text]", "".join(shown))


def _letters(text: str) -> str:
    return "".join(character.lower()[0] for character in text if character.isalnum())


class ProviderError(RagPipelineError):
    """A model or its provider failed. The message hides known keys.

    `status` is the HTTP status of the reply, or None without a reply.
    """

    status: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(without_secrets(message))

    def remove_echo(self, texts: Sequence[str]) -> None:
        """Hide the parts of `texts` that the message repeats (see `without_echo`)."""
        self.args = (without_echo(str(self), texts),)


class TransientError(ProviderError):
    """A call failed for a transient reason. `calls` repeats the call.

    `retry_after` is the wait in seconds that the provider asks for. `limited` means that the
    provider refused the call because of a rate limit. `reached` means that the provider answered.
    `connected` means that a server accepted the connection. `paid` means that the call may be
    charged.
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
    """A model failed on some texts. `failed` maps each to its error. Other answers are stored."""

    def __init__(self, failed: Mapping[str, ProviderError]) -> None:
        text, first = next(iter(failed.items()))
        more = f" (and {len(failed) - 1} more texts)" if len(failed) > 1 else ""
        super().__init__(f"{first}; the text begins {text[:60]!r}{more}")
        self.failed = failed


class CallsStoppedError(ProviderError):
    """No call to a model can work now, so the run stops. Earlier answers stay stored."""


class RefusedError(CallsStoppedError):
    """A server refused a call. The reason may concern every input or only this input.

    `said` is the message without the remedy. `inputs` is the number of refused inputs, 0 if a
    single input of the request may be the reason, or infinite if every input probably is refused.
    `calls` decides whether the reason concerns every input (see `Circuit.refuse`).
    """

    def __init__(self, said: str, cure: str, inputs: float = 0) -> None:
        super().__init__(f"{said}; {cure}")
        self.said = said
        self.inputs = inputs

    def remove_echo(self, texts: Sequence[str]) -> None:
        """Hide the parts of `texts` that the message and `said` repeat."""
        super().remove_echo(texts)
        self.said = without_echo(self.said, texts)


class TextTooLongError(ProviderError):
    """`text` exceeds the maximum length for the model."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class MissingExtraError(ProviderError):
    """An optional package is not installed."""

    def __init__(self, package: str, *extras: str) -> None:
        super().__init__(f"{package} is not installed; run: {installation(*extras)}")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    many = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def count_shown(items: Sized, most: int) -> int:
    """Return the number of items to show: one more than `most` if only one other is left."""
    return len(items) if len(items) == most + 1 else most


def first_problem(error: "ValidationError") -> str:
    """Describe the first wrong field by its path and the message of its error."""
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def import_extra(module: str, package: str, extra: str) -> Any:
    """Import a module of an optional package. Raise MissingExtraError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra) from None


def installation(*extras: str) -> str:
    """Return the command that installs extras without taking rag_pipeline from a package index.

    The command installs rag_pipeline with the extras from its original place, such as a checkout or
    a wheel. If this place is gone, the command installs only the requirements of the extras. If the
    environment has no pip, the command uses uv.
    """
    named = f"[{','.join(extras)}]"
    checkout = Path(__file__).parents[1]
    if (checkout / "pyproject.toml").is_file():
        place = "." if Path.cwd() == checkout else str(checkout)
        wanted = ["-c", str(Path(place) / "constraints.txt"), "-e", f"{place}{named}"]
    elif origin := _origin():
        limits = Path(origin, "constraints.txt")
        wanted = [*(["-c", str(limits)] if limits.is_file() else []), f"{origin}{named}"]
    else:
        wanted = sorted({line for extra in extras for line in _requirements(extra)})
    if importlib.util.find_spec("pip") is None:
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def _origin() -> str:
    """Return the file or folder that rag_pipeline was installed from (PEP 610), or ""."""
    record = importlib.metadata.distribution("rag_pipeline").read_text("direct_url.json")
    url = urlsplit(json.loads(record)["url"] if record else "")
    path = unquote(url.path) if url.scheme == "file" else ""
    return path if path and Path(path).exists() else ""


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
    """A dry run needs a reply that is not in the cache. Only dry runs raise this error."""


class UnexpectedError(RagPipelineError):
    """The code of a variant or a step raised an unexpected exception, which is the cause."""


def explained(error: Exception, subject: str = "") -> RagPipelineError | OSError:
    """Return this package's errors and OSErrors unchanged, and others as an UnexpectedError.

    The message names the subject, such as a variant and its document, and the line of code.
    """
    if isinstance(error, RagPipelineError | OSError):
        return error
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f'File "{last.filename}", line {last.lineno}, in {last.name}'
    about = f"{subject}: " if subject else ""
    found = UnexpectedError(f"{about}{type(error).__name__}: {error} ({place})")
    found.__cause__ = error
    return found


@contextmanager
def blaming(subject: str | Callable[[], str]) -> Iterator[None]:
    """Raise an unexpected exception of the block as an UnexpectedError that names the subject."""
    try:
        yield
    except Exception as error:
        found = explained(error, subject if isinstance(subject, str) else subject())
        if found is error:
            raise
        raise found from error


class BudgetError(RagPipelineError):
    """A plan or run would cost more than `budget_usd`. Finished work stays stored."""


class CheckFailedError(RagPipelineError):
    """A blocking check refused the data."""
