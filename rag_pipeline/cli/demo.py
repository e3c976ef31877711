"""`rag demo`: the sample corpus in a folder of the user's own, run and asked."""

import shutil
from pathlib import Path

from rich.markup import escape

from rag_pipeline.assistant import open_assistant
from rag_pipeline.cli.answers import show_answer
from rag_pipeline.cli.console import command, say
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.cli.run import run_corpus
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.pipeline.template import write_corpus_file

_PACKAGE = Path(__file__).parents[1]
_QUESTION = "How long does confidentiality last under the Halvorsk NDA?"
_PARTS = ("documents", "queries.jsonl")


def show_demo(folder: Path) -> None:
    """Copy the sample corpus into a folder, bring it up to date and answer one question.

    A folder that an earlier demo has made goes on from there. Raises ConfigError where something
    else stands in it.
    """
    file = folder / "sample.yaml"
    if not file.exists():
        _copy_sample(folder)
        write_corpus_file(
            "sample", folder / "documents", folder / "queries.jsonl", str(folder / "store"), file,
            shown_path(file), force=False,
        )  # fmt: skip
        say(f"wrote {escape(str(file))} and its documents")
    run_corpus(file, None, None)
    corpus = Corpus.load(file)
    line = rag("ask", _QUESTION, file=file, corpus="sample")
    say(f"\n{command(line)}")
    show_answer(open_assistant([corpus]).ask(_QUESTION), trace=False)


def _copy_sample(folder: Path) -> None:
    """Copy the sample's files: a wheel holds them beside the code, a checkout in data/."""
    packaged = _PACKAGE / "sample"
    source = packaged if packaged.is_dir() else _PACKAGE.parent / "data"
    if not all((source / part).exists() for part in _PARTS):
        raise StoreError(f"{source}: the sample corpus is missing; install rag_pipeline again")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is no demo; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "documents", folder / "documents")
    shutil.copy(source / "queries.jsonl", folder / "queries.jsonl")
