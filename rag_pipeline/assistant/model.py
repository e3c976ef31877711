"""Do the assistant's steps by rules if the chat model fails."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from rag_pipeline.assistant.results import Detail
from rag_pipeline.config import AssistantSettings, ChatSettings
from rag_pipeline.datamodels import Answer
from rag_pipeline.errors import (
    BudgetError,
    CallsStoppedError,
    GivenUpError,
    MissingExtraError,
    ProviderError,
)

T = TypeVar("T")
_PATIENCE_SECONDS = 5.0
"""Maximum time in seconds for the retries of one call."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A review of an answer: verdicts by name, and a better answer or None."""

    verdicts: Mapping[str, bool]
    better: Answer | None = None


def interactive(chat: ChatSettings, settings: AssistantSettings) -> ChatSettings:
    """Return a chat model's settings for a waiting user: no batches and short timeouts."""
    seconds = settings.model_seconds
    impatient = chat.within(seconds, min(seconds, _PATIENCE_SECONDS))
    return impatient.model_copy(update={"batch": False})  # batches take hours


class ModelWithFallback:
    """The steps of one answer, by a model, or by rules if the model fails.

    After an outage, a spent budget or a timeout, the model gets no further calls, so a user waits
    for one failure at most. If `needs_model` is True, CallsStoppedError and BudgetError are raised.
    Threads may share the object.
    """

    def __init__(self, needs_model: bool = False) -> None:
        self._needs_model = needs_model
        self._stopped: str | None = None
        self._failed: dict[str, str] = {}

    def __call__(
        self, detail: Detail, step: str, ask: Callable[[], T], rule: Callable[[], T], of: str = ""
    ) -> T:
        """Return the result of `ask`, or the result of `rule` if the model fails.

        `detail["by_rule"]` gets the reason of a failure. Raise MissingExtraError if the model needs
        a package that is not installed.
        """
        reason = self._stopped
        if reason is None:
            try:
                return ask()
            except MissingExtraError:
                raise
            except (CallsStoppedError, BudgetError, GivenUpError) as error:
                if self._needs_model and not isinstance(error, GivenUpError):
                    raise
                reason = self._stopped = str(error)[:300]
            except ProviderError as error:
                reason = str(error)[:300]
        self._failed.setdefault(step, reason)
        detail.setdefault("by_rule", {})[f"{step} of {of}" if of else step] = reason
        return rule()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a warning with the steps done by rules and the first reason, or ()."""
        if not self._failed:
            return ()
        reason = next(iter(self._failed.values()))
        return (f"done by rules, because the model failed: {', '.join(self._failed)} ({reason})",)
