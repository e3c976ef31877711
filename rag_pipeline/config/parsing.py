"""A YAML file -> CorpusConfig, or one error that names every mistake, its place and the cure."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import ValidationError

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import Settings
from rag_pipeline.errors import ConfigError

COMPONENT_TYPE = "rag_pipeline.RagPipeline"
_TAGS = ("method", "provider", "judge", "extractor", "score", "source")
"""The settings that tell the members of a union apart."""
_ENVIRONMENT = re.compile(
    r"""\{\{\s*env(?:\.(?P<plain>\w+)|\(\s*["'](?P<called>\w+)["']\s*\))\s*\}\}"""
)


def parse_config(attributes: Any, file: Path | None = None) -> CorpusConfig:
    """Validate a corpus file's attributes, `{{ env.NAME }}` replaced by environment variables.

    Raises ConfigError with one line per mistake: file, path inside it, value, allowed values.
    """
    where = str(file) if file else "corpus file"
    if not isinstance(attributes, dict):
        raise ConfigError(
            f"{where}: attributes: expected a mapping of settings, not {_shown(attributes)}"
        )
    attributes = _with_environment(attributes, where, ())
    try:
        config = CorpusConfig.model_validate(attributes)
    except ValidationError as error:
        lines = list(dict.fromkeys(_explain(e, attributes) for e in error.errors()))
        more = f"\n(and {len(lines) - 8} more)" if len(lines) > 8 else ""
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines[:8]) + more) from None
    if file is not None:
        config._file = file
        config._base = _base(file, config)
    return config


def load_config(file: str | Path) -> CorpusConfig:
    """Read a corpus file.

    Relative paths in it are resolved against the first of these in which `documents.path`
    exists: the file's own folder, the project root above it (where `workspace.yaml` or
    `pyproject.toml` stands), the working directory.
    """
    file = Path(file).expanduser()
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot read the corpus file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = re.sub(r"\s+", " ", str(error)).replace('in "<unicode string>", ', "")
        raise ConfigError(f"{file}: not valid YAML: {reason}") from None
    if not isinstance(raw, dict) or "attributes" not in raw:
        raise ConfigError(
            f"{file}: expected a mapping with `type: {COMPONENT_TYPE}` and `attributes:`, "
            f"not {_shown(raw)}"
        )
    if raw.get("type") != COMPONENT_TYPE:
        raise ConfigError(f"{file}: type: {raw.get('type')!r} is not one of: {COMPONENT_TYPE}")
    return parse_config(raw["attributes"], file.resolve())


def _with_environment(value: Any, where: str, path: tuple[str, ...]) -> Any:
    """Replace `{{ env.NAME }}` in every text, as Dagster's components write it."""
    if isinstance(value, dict):
        return {k: _with_environment(v, where, (*path, str(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_environment(v, where, (*path, str(i))) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        name = match["plain"] or match["called"]
        if name not in os.environ:
            raise ConfigError(
                f"{where}: {'.'.join(path)}: {match[0]}: the environment variable {name} is not set"
            )
        return os.environ[name]

    return _ENVIRONMENT.sub(found, value)


def _base(file: Path, config: CorpusConfig) -> Path:
    markers = ("workspace.yaml", "pyproject.toml")
    roots = [p for p in file.parents if any((p / m).exists() for m in markers)]
    bases = [file.parent, *roots[:1], Path.cwd()]
    try:
        documents = Path(config.documents.path).expanduser()
        found = [b for b in bases if config.documents.path and (b / documents).exists()]
    except (OSError, RuntimeError) as error:
        shown = _shown(config.documents.path)
        raise ConfigError(f"{file}: documents.path: {shown}: {error!s:.200}") from None
    return found[0] if found else bases[1] if roots else bases[0]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _explain(error: Any, attributes: Any) -> str:
    """Turn one pydantic error into `path: value: what is wrong and what is allowed`."""
    kind, context = error["type"], error.get("ctx", {})
    path: list[str] = []
    here: Any = attributes
    in_union = False
    for index, step in enumerate(error["loc"]):
        if not in_union and index < len(error["loc"]) - 1 and step in _tags_of(here):
            in_union = True  # the tag that pydantic puts in for a union's member
            continue
        in_union = False
        in_list = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if in_list or (isinstance(here, dict) and step in here):
            here = here[step]
        elif index < len(error["loc"]) - 1 or step == "[key]" or step in _tags_of(here):
            continue  # the tag that pydantic puts in for a union's member
        path.append(str(step))
    place = ".".join(path)
    if kind == "missing":
        return f"{place}: missing"
    if kind == "extra_forbidden":
        return f"{place}: unknown setting; allowed here: {', '.join(_allowed(error['loc']))}"
    if kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        return f"{place}.{tag}: missing; allowed: {_tags_at(error['loc'])}"
    if kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return f"{place}.{tag}: {context['tag']!r} is not one of: {context['expected_tags']}"
    if kind == "literal_error":
        return f"{place}: {_shown(error['input'])} is not one of: {context['expected']}"
    if kind == "string_pattern_mismatch":
        return (
            f"{place}: {_shown(error['input'])}: use 1 to 64 letters, digits, '_' or '-' in a name"
        )
    if kind == "value_error":
        message = str(context["error"])
        return f"{place}: {message}" if place else message
    return f"{place}: {_shown(error['input'])}: {error['msg']}"


def _members(loc: tuple[Any, ...]) -> list[type[Settings]]:
    """Return the settings classes that may stand at a pydantic error location's parent."""
    models: list[type[Settings]] = [CorpusConfig]
    for step in loc:
        if isinstance(step, str) and any(step in m.model_fields for m in models):
            found = [m.model_fields[step] for m in models if step in m.model_fields]
            inner = _settings_in(found[0].annotation, found[0].metadata)
            models = inner or models
        elif isinstance(step, str):
            tagged = [
                m
                for m in models
                for tag in _TAGS
                if tag in m.model_fields and step in get_args(m.model_fields[tag].annotation)
            ]
            models = tagged or models
    return models


def _settings_in(annotation: Any, marks: Sequence[Any] = ()) -> list[type[Settings]]:
    """Return the settings classes of an annotation; pydantic keeps a field's marks beside it."""
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    for mark in marks:
        if isinstance(mark, VariantsOf):
            return list(mark.classes(annotation).values())
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [m for a in get_args(annotation) for m in _settings_in(a)]


def _allowed(loc: tuple[Any, ...]) -> list[str]:
    return sorted({name for m in _members(loc[:-1]) for name in m.model_fields})


def _tags_at(loc: tuple[Any, ...]) -> str:
    tags = [
        str(value)
        for m in _members(loc)
        for tag in _TAGS
        if tag in m.model_fields
        for value in get_args(m.model_fields[tag].annotation)
    ]
    return ", ".join(repr(t) for t in tags)


def _tags_of(value: Any) -> list[Any]:
    return [value.get(tag) for tag in _TAGS] if isinstance(value, dict) else []
