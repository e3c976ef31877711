"""Read and change the queries file, the rejected questions, and `queries` in the corpus file."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import ConfigError, InputError
from rag_pipeline.loading.queries import QueryRecord, read_queries
from rag_pipeline.store.files import locked, replace_text

QUERIES = "queries.jsonl"
REJECTED, DROPPED = ".rejected.jsonl", ".dropped.jsonl"
_UNNAMED = re.compile(r"^([ \t]*)# queries: .*$", re.MULTILINE)
_CORPUS = re.compile(r"^([ \t]*)corpus:.*\n", re.MULTILINE)


def queries_file(config: CorpusConfig) -> Path:
    """Return the path of the corpus's queries file, even if the file does not exist yet."""
    if config.queries_path is not None:
        return config.queries_path
    own = config.path(QUERIES)
    return config.path(f"{config.corpus}.{QUERIES}") if own.exists() else own


def read_questions(path: Path) -> list[QueryRecord]:
    """Return the questions of a file, or [] for a missing or empty file."""
    return read_queries(path) if path.is_file() and path.read_bytes().strip() else []


def add(path: Path, rows: Sequence[Mapping[str, Any]]) -> int:
    """Append the rows whose ids are new and were not rejected, and return their number."""
    with _alone(path):
        known = {r.query_id for r in read_questions(path)} | rejected(path)
        new = [row for row in rows if row["query_id"] not in known]
        before = path.read_bytes().decode() if path.is_file() else ""
        gap = "\n" if before and not before.endswith("\n") else ""
        replace_text(path, before + gap + "".join(_line(row) for row in new))
    return len(new)


def with_quotes(row: dict[str, Any], text_of: Callable[[str], str]) -> dict[str, Any]:
    """Return a row with the text of each gold span, which reveals a later edit of a document."""
    spans = row["gold_spans"]
    texts = [text_of(s["document_id"])[s["start"] : s["end"]] for s in spans]
    quoted = [{**s, "quote": text} for s, text in zip(spans, texts, strict=True)]
    return {**row, "gold_spans": quoted}


def without_synthetic(path: Path) -> int:
    """Delete the synthetic questions that nobody has reviewed from a file. Return their number."""
    with _alone(path):
        lines = read_lines(path) if path.is_file() else []
        kept = [line for line in lines if not _is_unreviewed(line)]
        if len(kept) < len(lines):
            replace_text(path, "\n".join(kept))
    return len(lines) - len(kept)


def _is_unreviewed(line: str) -> bool:
    row = json.loads(line) if line.strip() else {}
    return bool(row.get("synthetic")) and not (row.get("metadata") or {}).get("review")


def change(path: Path, query_id: str, fields: Mapping[str, Any]) -> None:
    """Change fields of a question. Raise InputError for an unknown question."""
    with _alone(path):
        lines = read_lines(path)
        at = _asked(path, lines, {query_id}).index(True)
        lines[at] = _line({**json.loads(lines[at]), **fields}).strip()
        replace_text(path, "\n".join(lines))


def move(path: Path, query_ids: Collection[str], suffix: str = REJECTED) -> Path:
    """Move questions to a file beside `path`, and return the path of that file.

    Raise InputError if all questions are unknown.
    """
    target = path.with_suffix(suffix)
    with _alone(path):
        lines = read_lines(path)
        gone = _asked(path, lines, query_ids)
        with target.open("a", encoding="utf-8") as file:
            file.writelines(f"{line.strip()}\n" for line in compress(lines, gone))
        replace_text(path, "\n".join(compress(lines, [not one for one in gone])))
    return target


def _asked(path: Path, lines: Sequence[str], query_ids: Collection[str]) -> list[bool]:
    """Return whether each line is one of the questions. Raise InputError if no line is."""
    ids = [str(json.loads(line)["query_id"]) if line.strip() else "" for line in lines]
    if not set(ids) & set(query_ids):
        raise InputError(f"{path}: no query {', '.join(map(repr, query_ids))}")
    return [name in query_ids for name in ids]


def rejected(path: Path) -> set[str]:
    """Return the ids of the questions that were rejected from a queries file."""
    file = path.with_suffix(REJECTED)
    lines = read_lines(file) if file.is_file() else []
    return {json.loads(line)["query_id"] for line in lines if line}


def read_lines(path: Path) -> list[str]:
    """Return the lines of a JSON Lines file. A byte order mark is left out.

    `str.splitlines` would also split at U+2028 inside a record.
    """
    return path.read_bytes().decode("utf-8-sig").split("\n")


def name_in_corpus_file(file: Path, queries: Path) -> None:
    """Write the line `queries: …` into a corpus file that lacks it.

    If the file then does not load or names another path, restore it and raise ConfigError.
    """
    text = file.read_text(encoding="utf-8")
    base = load_config(file).path(".").resolve()
    path = queries.resolve()
    shown = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()
    value = json.dumps(shown, ensure_ascii=False)
    if _UNNAMED.search(text):
        changed = _UNNAMED.sub(lambda m: f"{m[1]}queries: {value}", text, count=1)
    else:
        changed = _CORPUS.sub(lambda m: f"{m[0]}{m[1]}queries: {value}\n", text, count=1)
    with _alone(file):
        replace_text(file, changed)
    try:
        named = load_config(file).queries_path
    except ConfigError:
        named = None
    if named is None or named.resolve() != path:
        with _alone(file):
            replace_text(file, text)
        raise ConfigError(f"{file}: add the line `queries: {value}` below `corpus:`")


def counts(records: Collection[QueryRecord]) -> tuple[int, int]:
    """Return the number of people's questions, and the number of synthetic questions."""
    synthetic = sum(r.synthetic for r in records)
    return len(records) - synthetic, synthetic


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a file's folder against other reviewers. Raise ConfigError if writing fails."""
    try:
        with locked(path.parent):
            yield
    except OSError as error:
        raise ConfigError(f"{path}: cannot write it: {error.strerror}") from None
