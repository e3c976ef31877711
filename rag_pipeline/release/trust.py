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

from rag_pipeline.config.endpoints import provider_of
from rag_pipeline.config.parsing import ENVIRONMENT
from rag_pipeline.errors import InputError

ALLOWED_KEYS = "RAG_ALLOWED_KEYS"
"""The environment variable with a comma-separated list of variables that a bundle may read."""
_NAMED = re.compile(
    r".*(?:url|uri|env|variable|address|host|endpoint|server|proxy|command|program|script|module"
    r"|path|folder|directory|file|tokenizer)(?:s|es)?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:[/\\]|[/~]\S|\\\\", re.IGNORECASE)
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


def foreign_settings(made: Mapping[str, object], own: Mapping[str, object]) -> list[str]:
    """Return a line for each part of a bundle's settings with a foreign address or variable.

    `made` has settings objects, in mappings and lists. Default values and the variables in
    `RAG_ALLOWED_KEYS` are trusted. A part is also trusted if a part of the importer's corpus file
    `own` has the same provider, addresses and variables. Default values count in this comparison,
    because a key is for one provider at one address.
    """
    trusted = [effective for _, effective, _ in _parts(own, "")]
    allowed = {name.strip() for name in os.environ.get(ALLOWED_KEYS, "").split(",")}
    lines = []
    for place, effective, chosen in _parts(made, ""):
        foreign = [(n, v) for n, v in chosen if not (n.endswith("_env") and v in allowed)]
        if foreign and effective not in trusted:
            lines.append(f"{place}: {', '.join(f'{n} {v}' for n, v in foreign)}")
    return list(dict.fromkeys(lines))


def _parts(value: object, place: str) -> Iterator[tuple[str, set[Any], list[Any]]]:
    """Yield the place of each model, its provider and named values, and those that are no defaults.

    The values of inner models are also values of the model, because they take effect together.
    """
    if isinstance(value, BaseModel):
        named = [*_named(value, "")]
        effective = {("provider", provider_of(value)), *((name, text) for name, text, _ in named)}
        yield place, effective, [(name, text) for name, text, is_default in named if not is_default]
    else:
        for name, part in _inner(value).items():
            yield from _parts(part, f"{place}.{name}" if place else str(name))


def _named(value: object, place: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and text of each address or variable, and whether it is the default."""
    fields = type(value).model_fields if isinstance(value, BaseModel) else {}
    for name, part in _inner(value).items():
        where = f"{place}.{name}" if place else str(name)
        texts = [part] if isinstance(part, str | PurePath) else part
        if isinstance(texts, list | tuple) and all(isinstance(t, str | PurePath) for t in texts):
            shown = [str(text) for text in texts]
            if any(map(_NAMED.fullmatch, where.split("."))) or any(map(_ADDRESS.match, shown)):
                yield where, " ".join(shown), name in fields and part == fields[name].default
        else:
            if isinstance(part, BaseModel):  # a key of an inner model is for its own provider
                yield f"{where}.provider", str(provider_of(part)), True
            yield from _named(part, where)


def _inner(value: object) -> Mapping[Any, Any]:
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    return dict(value) if isinstance(value, (BaseModel, Mapping)) else {}
