"""A commented corpus file with two configurations: what `rag init` and `dg scaffold` write."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from rag_pipeline.config import COMPONENT_TYPE, parse_config
from rag_pipeline.config.schema import corpus_schema
from rag_pipeline.errors import ConfigError
from rag_pipeline.loading.queries import read_queries

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# The corpus {name}. Relative paths below are relative to this file.
#   rag plan {file}    what a run would do
#   rag run {file}     index, measure and release it
type: {component}
attributes:
  corpus: {quoted_name}
  documents:
    path: {documents}
    include: ["**/*"]          # globs below the path
    exclude: []
    max_bytes: 50000000        # a larger file is quarantined, the others go on
    parse_seconds: 120         # so is a PDF, HTML or Office file that takes longer to parse
    max_deleted: 0.2           # a load that finds more than this share gone deletes none and asks
{queries}
  store: {store}               # what is built: a folder, or s3://bucket/prefix

  # Each stage has named variants, and a configuration picks one of each stage.
  chunkings:
    {chunking}: {chunking_settings}
    recursive_500: {{method: recursive, max_characters: 500}}
    # semantic_2_0: {{method: semantic, threshold: 2.0}}    # breaks where sentences drift apart
    # markdown: {{method: markdown, max_characters: 1000}}  # a chunk for each heading's section
    # fixed_200: {{method: fixed, tokens: 200, overlap: 20}}
  contextualizers:
    none: {{method: none}}
    structural: {{method: structural}}         # title, parties, headings: no model, no cost
  embeddings:
    # Packaged with rag: no key, no network. Token vectors are what maxsim compares.
    minilm: {{provider: minilm, token_vectors: true}}
  retrievers:
    dense: {{method: dense, top_k: 50}}
    # Vectors and BM25; what names a document finds the document, the rest the chunk; a chunk
    # gains by what stands before and after it.
    hybrid:
      method: hybrid
      dense_weight: 0.4
      lexical_weight: 0.6
      document_weight: 2.5
      split_query: true
      neighbour_weight: 0.1
      candidates: 200
      top_k: 50
  rerankers:
    none: {{method: none}}
    maxsim: {{method: maxsim, weight: 0.4, candidates: 50}}
  lexical: {{text_weight: 2}}    # in BM25, a chunk's own words count twice those of its context

  configurations:
    - name: default            # the best that needs no key
      chunking: {chunking}
      contextualizer: structural
      embedding: minilm
      retriever: hybrid
      reranker: maxsim
    - name: plain              # the usual script, as the baseline to beat
      chunking: recursive_500
      contextualizer: none
      embedding: minilm
      retriever: dense
      reranker: none
    # "*" stands for every variant of a stage: this line would try all chunkings.
    # - {{chunking: "*", contextualizer: structural, embedding: minilm, retriever: hybrid}}
  baseline: plain              # what the others are compared with
  serve: best                  # by AnswerPresence@5; or the name of a configuration
  # A configuration that is significantly worse in one of these does not replace what is served.
  gate: {{metrics: [AnswerPresence@5, nDCG@10, CriticalRecall]}}
  # schedule: "0 3 * * *"      # bring it up to date every night at three (`make up`)
"""
_SCHEMA = ".schema.json"
_NO_QUERIES = """\
  # Without queries nothing is measured, and the first configuration is released. `rag questions`
  # makes some from the documents; or write your own, a line each:
  #   {"query_id": "1", "query": "…?", "gold_spans": [{"document_id": "a.txt", "quote": "…"}]}
  # queries: queries.jsonl"""
_SENTENCES = (
    "sentences_600",
    "{method: sentences, max_characters: 600, max_tokens: 200}   # the model reads 254",
)
_GIVEN = ("given", "{method: given}   # the spans of chunks.jsonl beside the queries")


def write_corpus_file(
    name: str,
    documents: Path,
    queries: Path | None,
    store: str,
    target: Path,
    shown: str,
    force: bool,
) -> None:
    """Write the file, which commands name as `shown`.

    Paths are given as seen from the working directory. Raises ConfigError for a bad name, a
    missing path or an existing file, InputError for queries with mistakes.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(f"{name!r} can't name a corpus: use 1 to 64 letters, digits, '_' or '-'")
    if not documents.expanduser().exists():
        raise ConfigError(f"--documents {documents}: no such folder or file")
    if queries is not None:
        if not queries.expanduser().is_file():
            raise ConfigError(f"--queries {queries}: no such file")
        read_queries(queries.expanduser())
    target = target.expanduser()
    if target.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output {target}: name a file that ends in .yaml")
    if target.is_dir():
        raise ConfigError(f"--output {target}: is a folder; name a file in it")
    if target.exists() and not force:
        raise ConfigError(f"{target} exists; name another --output, or replace it with --force")
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"--output {target}: there is no folder {folder}")
    given = queries is not None and (queries.expanduser().parent / "chunks.jsonl").is_file()
    text = corpus_file_text(
        name,
        _relative(documents, folder),
        _relative(queries, folder) if queries else None,
        store if "://" in store else _relative(Path(store), folder),
        target.with_suffix(_SCHEMA),
        shown,
        given,
    )
    parse_config(yaml.safe_load(text)["attributes"], target.resolve())
    _write(target, text)
    write_schema(target.with_suffix(_SCHEMA))


def write_schema(target: Path) -> None:
    """Write the JSON Schema of corpus files; raise ConfigError where it can't be written."""
    _write(target, json.dumps(corpus_schema(), indent=1) + "\n")


def _write(target: Path, text: str) -> None:
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output {target}: cannot write it: {error.strerror}") from None


def corpus_file_text(
    name: str,
    documents: str,
    queries: str | None,
    store: str,
    schema: Path,
    shown: str,
    given: bool = False,
) -> str:
    """Return a corpus file with these paths, whose schema lies beside it.

    `given` takes the chunks of `chunks.jsonl`; commands name the file as `shown`.
    """
    chunking, chunking_settings = _GIVEN if given else _SENTENCES
    values: dict[str, Any] = {
        "schema": quote(schema.name),
        "name": name,
        "file": _one_line(shlex.quote(shown)),
        "component": COMPONENT_TYPE,
        "quoted_name": _yaml(name),
        "documents": _yaml(documents),
        "queries": f"  queries: {_yaml(queries)}" if queries else _NO_QUERIES,
        "store": _yaml(store),
        "chunking": chunking,
        "chunking_settings": chunking_settings,
    }
    return _TEMPLATE.format(**values)


def _relative(path: Path, folder: Path) -> str:
    """Return the path as seen from the folder when it lies below it, else in full."""
    absolute = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keep symbolic links
    try:
        str(absolute).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{path}: a path that is not UTF-8 can't stand in a file") from None
    for parent in (folder, Path(os.path.realpath(folder))):
        if absolute.is_relative_to(parent):
            return absolute.relative_to(parent).as_posix()
    return absolute.as_posix()


def _yaml(text: str) -> str:
    """Return a YAML scalar that is read back as this string."""
    if re.fullmatch(r"[A-Za-z0-9_./-]+", text) and yaml.safe_load(text) == text:
        return text
    quoted: str = yaml.safe_dump(text, allow_unicode=True, default_style='"', width=float("inf"))
    return quoted.strip()


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
