"""`rag demo`: a copy of the sample corpus, a run of it, and one answered question."""

import shutil
from pathlib import Path

from rich.markup import escape

from rag_pipeline.assistant import open_assistant
from rag_pipeline.cli.console import command, say
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.cli.run import run_corpus
from rag_pipeline.cli.tables import show_answer
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.pipeline.template import write_corpus_file

_PACKAGE = Path(__file__).parents[1]
_QUESTION = "How long does confidentiality last under the Halvorsk NDA?"
_PARTS = ("documents", "queries.jsonl")


def show_demo(folder: Path) -> None:
    """Copy the sample corpus into a folder, bring it up to date and answer one question.

    A folder of an earlier demo is brought up to date. Raises ConfigError for a folder with other
    files.
    """
    file = folder / "sample.yaml"
    if not file.exists():
        _copy_sample(folder)
        documents, queries, store = (folder / part for part in (*_PARTS, "store"))
        shown = shown_path(file)
        write_corpus_file("sample", documents, queries, str(store), file, shown, force=False)
        say(f"wrote {escape(str(file))} and its documents")
    run_corpus(file, None, None)
    corpus = Corpus.load(file)
    line = rag("ask", _QUESTION, file=file, corpus="sample")
    say(f"\n{command(line)}")
    show_answer(open_assistant([corpus]).ask(_QUESTION), trace=False)


def _copy_sample(folder: Path) -> None:
    """Copy the sample's files, from beside the code in a wheel, from data/ in a checkout."""
    packaged = _PACKAGE / "sample"
    source = packaged if packaged.is_dir() else _PACKAGE.parent / "data"
    if not all((source / part).exists() for part in _PARTS):
        raise StoreError(f"{source}: the sample corpus is missing; install rag_pipeline again")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is no demo; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "documents", folder / "documents")
    shutil.copy(source / "queries.jsonl", folder / "queries.jsonl")
