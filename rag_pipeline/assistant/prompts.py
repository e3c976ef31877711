"""Store optimized prompts with their scores in JSON files, `assistant/prompts/<n>.json`.

The examples in a file contain texts of documents and queries.
"""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_pipeline.errors import StoreError
from rag_pipeline.store import Store

FOLDER = "assistant/prompts"
PromptMetric = Literal["EntityF1", "AnswerPresence"]


class _PromptRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredPrompt(_PromptRecord):
    """The instructions and examples of one signature."""

    instructions: str
    examples: list[dict[str, Any]]


class PromptVersion(_PromptRecord):
    """The result of an optimization.

    The scores are means over `validated` queries, which gave no examples and selected no prompts.
    `score_before` is the score of the prompts in use before the optimization. `fingerprint`
    identifies the signatures.
    """

    number: int
    created: str
    fingerprint: str
    model: str
    metric: PromptMetric
    seed: int
    trials: int
    bootstrapped: int
    selected: int
    validated: int
    score_before: float | None
    score_after: float | None
    adopted: bool
    prompts: dict[str, StoredPrompt]


def history(store: Store) -> list[PromptVersion]:
    """Return all versions, newest first. Raise StoreError with the path of an invalid file."""
    return [_read(store, f"{FOLDER}/{number}.json") for number in sorted(_numbers(store))[::-1]]


def adopted(store: Store, fingerprint: str, model: str) -> PromptVersion | None:
    """Return the newest adopted version for these signatures and this model, or None."""
    for version in history(store):
        if version.adopted and (version.fingerprint, version.model) == (fingerprint, model):
            return version
    return None


def save(store: Store, version: PromptVersion) -> PromptVersion:
    """Store a version under the next free number. Return the version with its number."""
    number = max(_numbers(store), default=0)
    while True:
        number += 1
        numbered = version.model_copy(update={"number": number})
        if store.write_json_if(f"{FOLDER}/{number}.json", numbered.model_dump(), None):
            return numbered


def _numbers(store: Store) -> list[int]:
    found = (re.fullmatch(r"([1-9]\d*)\.json", name) for name in store.list(FOLDER))
    return [int(one[1]) for one in found if one]


def _read(store: Store, path: str) -> PromptVersion:
    try:
        return PromptVersion.model_validate(store.read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise StoreError(f"{store.address(path)}: {place}: {first['msg']}; delete it") from None
