"""Find and parse corpus files. One error lists all mistakes with their remedies."""

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import PATTERNS
from rag_pipeline.errors import ConfigError, MissingExtraError, OtherComponentError, count_shown

COMPONENT_TYPE = "rag_pipeline.RagPipeline"
_PLACES = ("*.yaml", "*.yml", "*/defs/*/defs.yaml", "src/*/defs/*/defs.yaml")
ENVIRONMENT = re.compile(
    r"""\{\{\s*env(?:\.(?P<plain>\w+)|\(\s*["'](?P<called>\w+)["']\s*\))\s*\}\}"""
)

RENAMED: Mapping[str, str] = {
    "assistant.passages": "evaluation.answers.contexts",
    "*.known_as": "cache_identity",
    "retrievers.*.top_k": "k",
    "retrievers.*.top_n": "k, the number of chunks that a search returns",
}
"""The current name of each renamed setting, by its path in the file. `*` matches any text."""
_SHORTEST_SECRET = 4
"""Messages hide values of variables with at least this many characters."""
_MOST_VALUES = 100_000
"""Maximum number of values in a corpus file. An alias counts as many as its content."""


class _Loader(yaml.SafeLoader):
    """A loader that refuses repeated keys and aliases with too much content."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        said = ""
        if isinstance(event, yaml.AliasEvent):
            said = "" if node in self._sizes else "an alias inside its own content"
        elif node is not None:
            pairs = isinstance(node, yaml.MappingNode)
            inner = [] if isinstance(node, yaml.ScalarNode) else node.value
            parts = [part for pair in inner for part in pair] if pairs else inner
            self._sizes[node] = 1 + sum(self._sizes[part] for part in parts)
            said = "too many values" if self._sizes[node] > _MOST_VALUES else ""
        if said:
            raise yaml.MarkedYAMLError(problem=said, problem_mark=event.start_mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                said = f"{key.value!r} occurs twice; rename or remove one"
                raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
            seen.add(key.value)
        return node


def parse_config(attributes: Any, file: Path | None = None) -> CorpusConfig:
    """Validate a corpus file's attributes. Replace `{{ env.NAME }}` by environment variables.

    Raise ConfigError with one line per mistake: file, setting, value and allowed values.
    """
    where = str(file) if file else "corpus file"
    if not isinstance(attributes, dict):
        raise ConfigError(
            f"{where}: attributes: expected a mapping of settings, not {_shown(attributes)}"
        )
    values: dict[str, str] = {}
    resolved = _with_environment(attributes, where, (), values)
    try:
        config = CorpusConfig.model_validate(resolved)
    except ValidationError as error:
        said = (_explain(e, _written(attributes, e)) for e in error.errors())
        lines = list(dict.fromkeys(_without(line, values) for line in said))
        most = count_shown(lines, 8)
        more = f"\n(and {len(lines) - most} more)" if len(lines) > most else ""
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines[:most]) + more) from None
    if file is not None:
        config._file = file
        config._base = _base(file, config)
    return config


def load_config(file: str | Path, needs_extras: bool = True) -> CorpusConfig:
    """Read a corpus file.

    Its relative paths start from the first of these folders that holds `documents.path`: the file's
    folder, the project root above it, and the working directory. A project root has
    `workspace.yaml` or `pyproject.toml`. Raise ConfigError if the file is invalid, and
    MissingExtraError if `needs_extras` and an optional package is not installed.
    """
    file = Path(file).expanduser()
    try:
        raw = yaml.load(file.read_text(encoding="utf-8"), _Loader)
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
        raise OtherComponentError(
            f"{file}: type: {raw.get('type')!r} is not one of: {COMPONENT_TYPE}"
        )
    config = parse_config(raw["attributes"], file.resolve())
    if needs_extras:
        require_extras(config)
    return config


def require_extras(config: CorpusConfig) -> None:
    """Raise MissingExtraError with one command that installs all missing packages."""
    missing: dict[str, tuple[str, str]] = {}
    for place, settings in config.used_settings():
        for module, extra in settings.required().items():
            if importlib.util.find_spec(module) is None:
                missing.setdefault(module, (extra, place))
    if missing:
        needs = ", ".join(f"{place} needs {module}" for module, (_, place) in missing.items())
        extras = dict.fromkeys(extra for extra, _ in missing.values())
        raise MissingExtraError(f"{config.where}: {needs}, which", *extras)


def other_settings(file: Path) -> list[str]:
    """Return the top-level names of a valid corpus file, except `type` and `attributes`."""
    raw = yaml.load(file.read_text(encoding="utf-8"), _Loader)
    return sorted(raw.keys() - {"type", "attributes"})


def corpus_files(folder: Path = Path()) -> Iterator[tuple[Path, str]]:
    """Yield each corpus file of a folder, also an invalid file, with the name of its corpus.

    Search the folder and Dagster's `*/defs/*/defs.yaml` below it.
    """
    for place in _PLACES:
        for file in sorted(folder.glob(place)):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if COMPONENT_TYPE in text:
                yield file, _corpus_name(text) or file.stem


def _corpus_name(text: str) -> str:
    try:
        return str(yaml.load(text, _Loader)["attributes"]["corpus"])
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, KeyError):
        return ""


def _with_environment(value: Any, where: str, path: tuple[str, ...], values: dict[str, str]) -> Any:
    """Replace each `{{ env.NAME }}` in every text, and add it to `values` by its value."""
    if isinstance(value, dict):
        return {k: _with_environment(v, where, (*path, str(k)), values) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_environment(v, where, (*path, str(i)), values) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        name = match["plain"] or match["called"]
        if name not in os.environ:
            raise ConfigError(
                f"{where}: {'.'.join(path)}: {match[0]}: the environment variable {name} is not set"
            )
        values[os.environ[name]] = match[0]
        return os.environ[name]

    return ENVIRONMENT.sub(found, value)


def _written(attributes: Any, error: Any) -> Any:
    """Return the text in the file of the value that caused a pydantic error."""
    *_, last = error["loc"] or (None,)
    if last == "[key]":
        return error["input"]
    for step in error["loc"]:
        with suppress(LookupError, TypeError):  # pydantic adds the tags of unions
            attributes = attributes[step]
    return attributes


def _without(line: str, values: Mapping[str, str]) -> str:
    """Replace variables' values in a message by `{{ env.NAME }}`, because values may be secret."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            for form in (value, repr(value)[1:-1], repr(f"\"'{value}")[4:-1]):
                line = line.replace(form, values[value])
    return line


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


def _explain(error: Any, written: Any) -> str:
    """Return a pydantic error as `setting: value: mistake and allowed values`."""
    kind, context = error["type"], error.get("ctx", {})
    path, models = _standing_at(CorpusConfig, (), list(error["loc"]))
    place = ".".join(path)
    if kind == "missing":
        return f"{place}: missing"
    if kind == "extra_forbidden":
        for earlier, now in RENAMED.items():
            if fnmatchcase(place, earlier):
                return f"{place}: this setting is called {now}"
        allowed = sorted({name for m in models for name in m.model_fields})
        return f"{place}: unknown setting; allowed here: {', '.join(allowed)}"
    if kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        values = (value for m in models for value in get_args(m.model_fields[tag].annotation))
        return f"{place}.{tag}: missing; allowed: {', '.join(map(repr, values))}"
    if kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return f"{place}.{tag}: {context['tag']!r} is not one of: {context['expected_tags']}"
    if kind == "literal_error":
        return f"{place}: {_shown(written)} is not one of: {context['expected']}"
    if kind == "string_pattern_mismatch":
        wanted = PATTERNS.get(context["pattern"], error["msg"])
        return f"{place}: {_shown(written)}: {wanted}"
    if kind == "value_error":
        message = str(context["error"])
        return f"{place}: {message}" if place else message
    return f"{place}: {_shown(written)}: {error['msg']}"


def _standing_at(
    annotation: Any, marks: Sequence[Any], loc: list[Any]
) -> tuple[list[str], list[type[BaseModel]]]:
    """Return the path of a pydantic error location, and the possible models at its end."""
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    if loc and get_origin(annotation) in (dict, list, tuple):
        item = get_args(annotation)[-1 if get_origin(annotation) is dict else 0]
        path, models = _standing_at(item, (), [step for step in loc[1:] if step != "[key]"])
        return [str(loc[0]), *path], models
    models = _models_in(annotation, marks)
    if loc and (len(models) > 1 or any(isinstance(mark, VariantsOf) for mark in marks)):
        tag, *loc = loc  # pydantic adds the tag of a union's member
        every = ((m, f) for m in models for f in m.model_fields.values())
        models = [m for m, f in every if get_args(f.annotation) == (tag,)]
    fields = [m.model_fields[loc[0]] for m in models if loc and loc[0] in m.model_fields]
    if not fields:
        return [str(step) for step in loc if models or isinstance(step, int)], models
    path, inner = _standing_at(fields[0].annotation, fields[0].metadata, loc[1:])
    return [str(loc[0]), *path], inner


def _models_in(annotation: Any, marks: Sequence[Any] = ()) -> list[type[BaseModel]]:
    """Return the model classes in an annotation. `marks` are the metadata of its field."""
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    for mark in marks:
        if isinstance(mark, VariantsOf):
            return list(mark.classes(annotation).values())
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for a in get_args(annotation) for m in _models_in(a)]
