"""What can go wrong with a call of a model, and rules by which it does."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline_tests.testing.model_replies import Body, items_of


@dataclass(frozen=True)
class Fault:
    """An error reply; text is put in the error objects of every vendor, bytes go as they are.

    It is not billed unless its status is 200. A batch's line gets the status in its response.
    """

    status: int
    body: str | bytes = "injected"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> Any:
        if isinstance(self.body, bytes):
            return self.body
        return {"error": {"message": self.body}, "detail": self.body, "message": self.body}


CUT = Fault(0)
"""The connection is closed unanswered; a batch's line is not among the results."""
HANG = Fault(-1)
"""No answer while the server stands."""
EXPIRED = Fault(-2)
"""A batch's line that was not reached before the batch ended."""


@dataclass(frozen=True)
class Echo:
    """An unbilled error that repeats every header and the body of its request."""

    status: int


@dataclass(frozen=True)
class Late:
    """A billed reply that comes after so many seconds, when its client has given up."""

    seconds: float


class Billed:
    """One of the billed failures below."""


CUT_REPLY = Billed()
"""The connection is closed in the middle of the reply."""
SHUFFLED = Billed()
"""A right reply whose results are in another order; each names its place."""

Change = Callable[[Body], Any]
"""From a right reply to the one that is sent instead, and billed: JSON, or bytes as they are."""
Failure = Fault | Echo | Late | Billed | Change | None
Faults = Callable[[str, Body], Failure]
"""From a request's path and body to what goes wrong, if anything.

The path of a batch's line is `batch/chat/completions`.
"""


def none(path: str, body: Body) -> None:
    """Let nothing go wrong."""


def garbled(reply: Body) -> Any:
    content = json.dumps(reply).encode()
    return content[: len(content) // 2]


def short(reply: Body) -> Any:
    return {**reply, "data": reply["data"][:-1], "results": reply.get("results", [])[:-1]}


def too_many(reply: Body) -> Any:
    return {**reply, "data": reply["data"] * 2, "results": reply.get("results", []) * 2}


def finished(reason: str) -> Change:
    """Cut a completion's text in half for a reason: `length` or `content_filter`."""

    def change(reply: Body) -> Any:
        (choice,) = reply["choices"]
        text = choice["message"]["content"]
        message = {**choice["message"], "content": text[: len(text) // 2]}
        return {**reply, "choices": [{**choice, "finish_reason": reason, "message": message}]}

    return change


class Chance:
    """Chance that is drawn for each request by what it asks and how often that was asked before.

    The order in which a client's threads arrive changes nothing. A server asks it under its lock.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked: Counter[str] = Counter()

    def of(self, path: str, body: Body) -> random.Random:
        asked = f"{path} {items_of(path, body)}"
        self._asked[asked] += 1
        return random.Random(f"{self._seed} {self._asked[asked]} {asked}")


def poison(failure: Failure, *items: str) -> Faults:
    """Fail every request that holds one of the prompts, texts or queries."""
    return lambda path, body: failure if set(items) & set(items_of(path, body)) else None
