"""Count the tokens of OpenAI's models exactly, if their vocabularies are on this machine.

`tiktoken` would download a missing vocabulary. Here it reads only local files: in the folder
TIKTOKEN_CACHE_DIR, or in litellm, which the extra `dspy` installs. The packages of Anthropic,
Voyage, Cohere and Jina contain no vocabularies.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
"""File names in the cache of tiktoken, and the SHA-256 of their content."""
_VARIABLE = "TIKTOKEN_CACHE_DIR"
_CARRIER, _CARRIED_IN = "litellm", "litellm_core_utils/tokenizers"
_CHARACTERS_AT_ONCE = 50_000
_reading = Lock()


@cache
def encoder(model: str) -> Callable[[str], int] | None:
    """Return the token counter of a model, or None if this machine lacks its vocabulary."""
    try:
        import tiktoken

        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    folder = next((f for f in _folders() if name in _FILES and _holds(f, *_FILES[name])), None)
    if folder is None:
        return None
    encoding = _read(tiktoken, name, folder)
    # The tokenizer is slow for a megabyte without a space.
    step = _CHARACTERS_AT_ONCE
    return lambda text: sum(
        len(encoding.encode_ordinary(text[i : i + step])) for i in range(0, len(text), step)
    )


def _folders() -> list[Path]:
    carrier = find_spec(_CARRIER)
    places = carrier.submodule_search_locations if carrier is not None else None
    found = [Path(place) / _CARRIED_IN for place in places or ()]
    named = os.environ.get(_VARIABLE)
    return [Path(named), *found] if named else found


def _holds(folder: Path, file: str, digest: str) -> bool:
    """Return whether a file has the expected hash. tiktoken would replace any other file."""
    try:
        return hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _read(tiktoken: Any, name: str, folder: Path) -> Any:
    with _reading:
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = str(folder)
        try:
            return tiktoken.get_encoding(name)
        finally:
            del os.environ[_VARIABLE]
            if before is not None:
                os.environ[_VARIABLE] = before
