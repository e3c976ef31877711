"""Write the commented corpus file with two configurations for `rag init` and `dg scaffold`."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from rag_pipeline.config import COMPONENT_TYPE, parse_config
from rag_pipeline.config.schema import corpus_schema
from rag_pipeline.errors import ConfigError
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.store.files import replace_text

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# The corpus {name}. Relative paths start at this file's folder.
#   rag plan {file}    shows the steps and costs of a run
#   rag run {file}     indexes, measures and releases it
type: {component}
attributes:
  corpus: {quoted_name}
  documents:
    path: {documents}
    include: ["**/*"]          # globs below the path
    exclude: {exclude}
    max_bytes: 50000000        # larger files go to quarantine
    parse_seconds: 120         # so do PDF, HTML and Office files that take longer to parse
    max_deleted: 0.2           # if a larger share is gone, a load deletes nothing and fails
    # metadata: documents.csv  # document_id, title, and your own columns to filter by
{queries}
  store: {store}               # tables and indexes: a folder, or s3://bucket/prefix

  # Each stage has named variants, and a configuration picks one of each stage.
  chunkings:
    {chunking}: {chunking_settings}
    recursive_500: {{method: recursive, max_characters: 500}}
    # semantic_2_0: {{method: semantic, threshold: 2.0}}    # cuts where sentences differ
    # markdown: {{method: markdown, max_characters: 1000}}  # a chunk per section
    # fixed_200: {{method: fixed, tokens: 200, overlap: 20}}
  contextualizers:
    none: {{method: none}}
    structural: {{method: structural, table_heads: true}}   # title, headings: no model, no cost
  embeddings:                  # named again in configurations, and in `tokens_of` of a chunking
{embeddings}
  retrievers:
    dense: {{method: dense, k: 50}}
    # Vectors and BM25. Words that name a document find the document, other words find the chunk.
    # The chunks before and after add to a chunk's score.
    hybrid:
      method: hybrid
{weights}
      document_weight: 2.5
      split_query: true
      neighbour_weight: 0.1
      candidates: 200
      k: 50
  rerankers:
    none: {{method: none}}
    maxsim: {{method: maxsim, weight: 0.5, candidates: 50}}
  # In BM25, a word of the chunk counts as two of its context.
  lexical: {{text_weight: 2{language}}}

  configurations:
    - name: default            # the best that needs no key
      chunking: {chunking}
      contextualizer: structural
      embedding: {embedding}
      retriever: hybrid
      reranker: {reranker}
    - name: plain              # a simple script, as the baseline
      chunking: recursive_500
      contextualizer: none
      embedding: {embedding}
      retriever: dense
      reranker: none
    # "*" means every variant of a stage: this line would try all chunkings.
    # - {{chunking: "*", contextualizer: structural, embedding: {embedding}, retriever: hybrid}}
  baseline: plain              # the leaderboard compares the others with it
  serve: best                  # by AnswerPresence@5; if it can't tell, the first; or a name
  # A configuration that is significantly worse in one of these does not replace the release.
  gate: {{metrics: [AnswerPresence@5, nDCG@10, CriticalRecall]}}
  # schedule: "0 3 * * *"      # every night at 03:00 (`make up` starts the daemon)
"""
_NO_QUERIES = """\
  # Without queries nothing is measured, and the first configuration is released. `rag questions`
  # makes some from the documents. Or write your own, one per line:
  #   {"query_id": "1", "query": "…?", "gold_spans": [{"document_id": "a.txt", "quote": "…"}]}
  # queries: queries.jsonl"""
_GIVEN = {
    "chunking": "given",
    "chunking_settings": "{method: given}   # the spans of chunks.jsonl beside the queries",
}
_ENGLISH = {
    "chunking": "sentences_600",
    "chunking_settings": "{method: sentences, max_characters: 600, max_tokens: 200}   "
    "# the model reads 254",
    "embeddings": """\
    # Packaged with rag: no key, no network. maxsim compares token vectors.
    minilm: {provider: minilm, token_vectors: true}
    # e5: {provider: e5}         # about 100 languages, with the extra e5""",
    "embedding": "minilm",
    "weights": """\
      dense_weight: 0.5
      lexical_weight: 0.5""",
    "reranker": "maxsim",
    "language": "",
}
_MULTILINGUAL = {
    "chunking": "sentences_600",
    "chunking_settings": "{method: sentences, max_characters: 600, max_tokens: 200, tokens_of: e5}",
    "embeddings": """\
    # multilingual-e5-small (the extra e5): no key, no network, about 100 languages.
    e5: {provider: e5}
    # Packaged with rag, for English only. maxsim compares token vectors.
    # minilm: {provider: minilm, token_vectors: true}""",
    "embedding": "e5",
    "weights": """\
      dense_weight: 0.8          # few terms are shared between languages
      lexical_weight: 0.2""",
    "reranker": "none",
    "language": ", language: auto",
}


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices in a new corpus file.

    `model` is the embedding, `minilm` or `e5`. If the languages are `mixed`, BM25 stems each text
    by its own language. Files that match a glob of `exclude` are not indexed.
    """

    model: str = "minilm"
    mixed: bool = False
    exclude: Sequence[str] = ()


def write_corpus_file(
    name: str,
    documents: Path,
    queries: Path | None,
    store: str,
    target: Path,
    shown: str,
    force: bool,
    choices: Choices = Choices(),
) -> None:
    """Write a corpus file and its schema.

    The commands in the file's comments contain `shown` as the file's path. The paths in the
    arguments are relative to the working directory. Raise the errors of `check_choices`.
    """
    check_choices(name, documents, queries, target, force)
    target = target.expanduser()
    folder = target.resolve().parent
    schema = schema_file(target, store)
    given = queries is not None and (queries.expanduser().parent / "chunks.jsonl").is_file()
    text = corpus_file_text(
        name,
        _relative(documents, folder),
        _relative(queries, folder) if queries else None,
        store if "://" in store else _relative(Path(store), folder),
        _relative(schema, folder),
        shown,
        given,
        choices,
    )
    parse_config(yaml.safe_load(text)["attributes"], target.resolve())
    try:
        schema.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--store {store}: cannot create this folder: {error.strerror}") from None
    write_file("--output", target, text)
    write_schema(schema)


def schema_file(target: Path, store: str) -> Path:
    """Return the path of a corpus file's schema.

    The schema is in the store's folder. If the store is a bucket, the schema is beside the corpus
    file.
    """
    beside = target.with_suffix(".schema.json")
    return beside if "://" in store else Path(store).expanduser() / beside.name


def check_choices(
    name: str, documents: Path, queries: Path | None, target: Path, force: bool
) -> None:
    """Raise ConfigError for a bad name, a missing path or a bad target.

    If `force` is False, the target must not exist. Raise InputError if a line of the queries file
    is invalid.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(f"corpus name {name!r}: use 1 to 64 letters, digits, '_' or '-'")
    if not documents.expanduser().exists():
        raise ConfigError(f"--documents {documents}: no such folder or file")
    if queries is not None:
        if not queries.expanduser().is_file():
            raise ConfigError(f"--queries {queries}: no such file")
        read_queries(queries.expanduser())
    target = target.expanduser()
    if target.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output {target}: use a file name that ends in .yaml")
    check_target("--output", target)
    if target.exists() and not force:
        raise ConfigError(f"{target} exists; name another --output, or replace it with --force")


def write_schema(target: Path) -> None:
    """Write the JSON Schema of corpus files to `target`. Raise ConfigError if writing fails."""
    write_file("--output", target, json.dumps(corpus_schema(), indent=1) + "\n")


def check_target(option: str, target: Path) -> None:
    """Raise ConfigError if an option's target is a folder, or if its parent folder is missing."""
    if target.is_dir():
        raise ConfigError(f"{option} {target} is a folder; name a file in it")
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"{option} {target}: there is no folder {folder}")


def write_file(option: str, target: Path, text: str) -> None:
    """Write the file that an option names. Raise ConfigError if writing fails."""
    try:
        replace_text(target, text)
    except OSError as error:
        raise ConfigError(f"{option} {target}: cannot write it: {error.strerror}") from None


def corpus_file_text(
    name: str,
    documents: str,
    queries: str | None,
    store: str,
    schema: str,
    shown: str,
    given: bool = False,
    choices: Choices = Choices(),
) -> str:
    """Return the text of a corpus file. If `given` is True, `chunks.jsonl` defines the chunks."""
    values: dict[str, Any] = {
        "schema": quote(schema),
        "name": name,
        "file": " ".join(shlex.quote(shown).splitlines()),
        "component": COMPONENT_TYPE,
        "quoted_name": _yaml(name),
        "documents": _yaml(documents),
        "queries": f"  queries: {_yaml(queries)}" if queries else _NO_QUERIES,
        "store": _yaml(store),
        "exclude": f"[{', '.join(_yaml(glob) for glob in choices.exclude)}]",
        **(_MULTILINGUAL if choices.model == "e5" else _ENGLISH),
        **({"language": ", language: auto"} if choices.mixed else {}),
        **(_GIVEN if given else {}),
    }
    return _TEMPLATE.format(**values)


def _relative(path: Path, folder: Path) -> str:
    """Return the path relative to `folder`, or the absolute path if it lies outside."""
    absolute = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keep symbolic links
    try:
        str(absolute).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{path}: the path is not UTF-8; rename the file or folder") from None
    for parent in (folder, Path(os.path.realpath(folder))):
        if absolute.is_relative_to(parent):
            return absolute.relative_to(parent).as_posix()
    return absolute.as_posix()


def _yaml(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_./-]+", text) and yaml.safe_load(text) == text:
        return text
    quoted: str = yaml.safe_dump(text, allow_unicode=True, default_style='"', width=float("inf"))
    return quoted.strip()
