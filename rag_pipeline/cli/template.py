"""`rag init`: a commented corpus file with two configurations."""

import os
import re
from pathlib import Path

from rag_pipeline.config import COMPONENT_TYPE, load_config
from rag_pipeline.errors import ConfigError

_TEMPLATE = """\
# Corpus {name}. `rag run {file}` indexes, evaluates and releases it; `rag plan {file}` shows first
# what that would do. Relative paths are relative to this file.
type: {component}
attributes:
  corpus: {name}
  documents:
    path: {documents}
    include: ["**/*"]         # globs below the path
    exclude: []
    max_bytes: 50000000       # larger files are quarantined
{queries}
  store: {store}              # a folder, or s3://bucket/prefix

  # Each stage has named variants; a configuration picks one per stage.
  chunkings:
    {default_chunking}
    recursive_500: {{method: recursive, max_characters: 500}}
    # semantic_2_0: {{method: semantic, threshold: 2.0}}   # break where sentences drift apart
    # markdown: {{method: markdown, max_characters: 1000}} # one chunk per section
    # fixed_200: {{method: fixed, tokens: 200, overlap: 20}}
  contextualizers:
    none: {{method: none}}
    structural: {{method: structural}}       # title, parties, headings: free
  embeddings:
    minilm: {{provider: minilm}}             # packaged: no key, no network
  retrievers:
    dense: {{method: dense, top_k: 50}}
    {default_retriever}
  rerankers:
    none: {{method: none}}

  configurations:
    - name: default           # the best that free parts can do
      chunking: {chunking}
      contextualizer: structural
      embedding: minilm
      retriever: {retriever}
      reranker: none
    - name: plain             # what most scripts do: the baseline to beat
      chunking: recursive_500
      contextualizer: none
      embedding: minilm
      retriever: dense
      reranker: none
  serve: best                 # or a configuration's name
  # schedule: "0 3 * * *"     # re-index every night at three
"""
_NO_QUERIES = """\
  # queries: queries.jsonl    # {"query_id", "query", "gold_spans": [{"document_id", "quote"}]}
  #                           # a line: without it nothing is measured, and `default` is served"""
DEFAULT_CHUNKING = ("recursive_500", "")
DEFAULT_RETRIEVER = (
    "hybrid",
    "hybrid: {method: hybrid, fusion: weighted, dense_weight: 0.6, lexical_weight: 0.4, top_k: 50}",
)


def write_corpus_file(
    name: str, documents: Path, queries: Path | None, store: str, target: Path, force: bool
) -> None:
    """Write the file; raise ConfigError for a bad name, a missing path or an existing file."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(f"{name!r} can't name a corpus: use 1 to 64 letters, digits, '_' or '-'")
    if not documents.exists():
        raise ConfigError(f"--documents {documents}: no such folder or file")
    if queries is not None and not queries.is_file():
        raise ConfigError(f"--queries {queries}: no such file")
    if target.exists() and not force:
        raise ConfigError(f"{target} exists; name another --output, or replace it with --force")
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"--output {target}: there is no folder {folder}")
    chunking, chunking_line = DEFAULT_CHUNKING
    retriever, retriever_line = DEFAULT_RETRIEVER
    text = _TEMPLATE.format(
        name=name,
        file=target,
        component=COMPONENT_TYPE,
        documents=_yaml(_relative(documents, folder)),
        queries=f"  queries: {_yaml(_relative(queries, folder))}" if queries else _NO_QUERIES,
        store=_yaml(store if "://" in store else _relative(Path(store), folder)),
        chunking=chunking,
        default_chunking=chunking_line or "# the default:",
        retriever=retriever,
        default_retriever=retriever_line,
    )
    target.write_text(text, encoding="utf-8")
    load_config(target)


def _relative(path: Path, folder: Path) -> str:
    """Return the path as seen from the folder when it lies below it, else in full."""
    absolute = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keep symbolic links
    try:
        return absolute.relative_to(folder).as_posix()
    except ValueError:
        return absolute.as_posix()


def _yaml(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_./~-]+", text) and not text.startswith(("-", "~")):
        return text
    return "'" + text.replace("'", "''") + "'"
