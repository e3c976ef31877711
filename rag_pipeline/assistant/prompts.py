"""Optimized prompts, each a JSON file with its scores: `assistant/prompts/<n>.json` in the store.

Their examples hold text of documents and queries until the file is deleted.
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
    """One result of an optimization.

    Scores are means over the `validated` queries, which were not used for examples or choices.
    `score_before` is the score of the prompts in use before. `fingerprint` identifies the
    signatures.
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
    """Return all versions, newest first; raise StoreError naming an invalid file."""
    return [_read(store, f"{FOLDER}/{number}.json") for number in sorted(_numbers(store))[::-1]]


def adopted(store: Store, fingerprint: str, model: str) -> PromptVersion | None:
    """Return the newest adopted version for these signatures and this model, else None."""
    for version in history(store):
        if version.adopted and (version.fingerprint, version.model) == (fingerprint, model):
            return version
    return None


def save(store: Store, version: PromptVersion) -> PromptVersion:
    """Store a version under the next free number and return it with the number."""
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
        raise StoreError(
            f"{store.address(path)}: {place}: {first['msg']}; delete the file"
        ) from None
