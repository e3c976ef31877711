"""Find addresses and variables in a bundle's settings that its importer did not choose.

Without this check, the maker of a bundle could name an address and a variable of the importer. The
server at this address would get the variable's value and all questions.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from rag_pipeline.config import CorpusConfig
from rag_pipeline.config.parsing import ENVIRONMENT
from rag_pipeline.errors import InputError

ALLOWED_KEYS = "RAG_ALLOWED_KEYS"
"""The environment variable with a comma-separated list of variables that a bundle may read."""
_NAMED = re.compile(
    r".*(?:url|env|address|host|command|module|path|folder|file|tokenizer)", re.IGNORECASE
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:[/\\]|[/~]|\\\\", re.IGNORECASE)
"""The start of an address or of an absolute path."""


def refuse_variables(value: Any, where: str) -> None:
    """Raise InputError if a text in `value` contains `{{ env.NAME }}`.

    A corpus file would insert the variable's value. `where` begins the message.
    """
    if isinstance(value, str) and (found := ENVIRONMENT.search(value)):
        raise InputError(f"{where}: its settings contain {found[0]}, which would read a variable")
    if isinstance(value, (dict, list)):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            refuse_variables(part, where)


def foreign_settings(made: object, own: CorpusConfig | None) -> list[str]:
    """Return a line for each part of a bundle's settings with a foreign address or variable.

    `made` has settings objects, in mappings and lists. Default values and the variables in
    `RAG_ALLOWED_KEYS` are trusted. The values of a part are also trusted if a part of the
    importer's corpus file `own` has all of them.
    """
    trusted = [dict(values) for _, values in _parts(own, "")] if own else []
    allowed = {name.strip() for name in os.environ.get(ALLOWED_KEYS, "").split(",")}
    lines = []
    for place, values in _parts(made, ""):
        foreign = {
            name: value
            for name, value in values.items()
            if not (name.endswith("_env") and value in allowed)
        }
        if foreign and not any(values.items() <= known.items() for known in trusted):
            lines.append(f"{place}: " + ", ".join(f"{n} {v}" for n, v in foreign.items()))
    return list(dict.fromkeys(lines))


def _parts(value: object, place: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the settings of each model that names an address or a variable."""
    inner: Mapping[Any, Any] = {}
    if isinstance(value, BaseModel):
        inner = dict(value)
        fields = type(value).model_fields
        named = {
            name: _shown(text)
            for name, text in inner.items()
            if isinstance(text, str | PurePath | list | tuple)
            and (_NAMED.fullmatch(name) or _ADDRESS.match(_shown(text)))
            and (name not in fields or text != fields[name].default)
        }
        if named:
            yield place, named
    elif isinstance(value, Mapping):
        inner = value
    elif isinstance(value, (list, tuple)):
        inner = dict(enumerate(value))
    for name, part in inner.items():
        yield from _parts(part, f"{place}.{name}" if place else str(name))


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
