"""Define the commands that build: init, demo, schema, import, run, plan, show, quarantine."""

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rag_pipeline.cli.console import counting, print_json, say, set_quiet, show_next
from rag_pipeline.cli.find import find_corpus_file, rag, shown_path
from rag_pipeline.cli.options import (
    CorpusArgument,
    CorpusOption,
    JsonFlag,
    QuietFlag,
    argument,
    flag,
    option,
)
from rag_pipeline.errors import ConfigError, InputError, StoreError

app = typer.Typer()

_NAME = "The corpus's name: letters, digits, '_', '-'; or a folder of documents with that name."
_SAMPLE = ("documents", "queries.jsonl")
_DEMO_QUESTIONS = 60
_QUESTION = "How long does confidentiality last under the Halvorsk NDA?"
_FORMATS = "legalbench-rag, chroma-chunking, anthropic-contextual, contractnli, beir or trec."
_MIGRATE = "Predict gain and cost of another embedding from a sample, and keep its vectors."


@app.command(short_help="Write a commented corpus file.")
def init(
    name: Annotated[str, argument("NAME", _NAME)],
    folder: Annotated[Path | None, argument("DIR", "The same as --documents.")] = None,
    documents: Annotated[Path | None, option("DIR", "Folder or file with the documents.")] = None,
    queries: Annotated[Path | None, option("FILE", "queries.jsonl to measure with.")] = None,
    store: Annotated[str, option("DIR", "Folder, or s3:// prefix, for the store.")] = "rag-store",
    output: Annotated[Path | None, option("FILE", "File to write [NAME.yaml].")] = None,
    model: Annotated[str | None, option("MODEL", "Embedding: minilm or e5.")] = None,
    exclude: Annotated[list[str] | None, option("GLOB", "Files to leave out; '' for none.")] = None,
    force: Annotated[bool, flag("--force", "Replace an existing file.")] = False,
) -> None:
    """Look at a folder, and write a corpus file with the configurations `default` and `plain`.

    At most 80 files are read, for at most 60 seconds. Each packaged model embeds 20 texts, to
    estimate its minutes on this machine. Logs over 1 MB and data files over 10 MB are left out.
    Tables over 1 MB are left out if they hold at least half of the text. On a terminal, the
    command asks about the model, the questions and these files.

    The store's folder also holds the JSON Schema of the corpus file, for editors. Paths are
    relative to the working directory.

    \b
    Examples:
      rag init contracts/
      rag init contracts --documents ~/contracts --queries queries.jsonl
      rag init mixed/ --model e5 --exclude 'archive/**'
    """
    from rag_pipeline.cli.init import initialize

    documents = documents or folder
    if documents is None:
        documents = Path(name).expanduser()
        if not documents.exists():
            raise typer.BadParameter(f"Missing '--documents', and there is no folder {name!r} here")
        name = _corpus_name(documents)
    target = output or Path(f"{name}.yaml")
    initialize(name, documents, queries, store, target, force, model, exclude)


def _corpus_name(documents: Path) -> str:
    """Return the folder's name, with `_` for characters that the name of a corpus may not have."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", documents.expanduser().resolve().stem).strip("_")


@app.command(short_help="Try it on the sample corpus or your documents.")
def demo(
    folder: Annotated[Path, argument("FOLDER", "Folder to make.")] = Path("rag-demo"),
    documents: Annotated[
        Path | None, option("DIR", "Try it on these documents instead of the sample.", "--folder")
    ] = None,
) -> None:
    """Index and evaluate a corpus in a new folder, release its best build, and answer a question.

    Without `--folder`, the corpus is the sample: 27 invented agreements and policies that look
    alike, and 71 questions. With `--folder`, rules make up to 60 questions from your documents.
    The documents are only read. The demo needs no key and no network. To remove everything, delete
    the folder.

    \b
    Examples:
      rag demo
      rag demo /tmp/sample
      rag demo --folder ~/contracts
    """
    from rag_pipeline.cli.run import run_corpus, show_example
    from rag_pipeline.corpus import Corpus

    folder = folder.expanduser()
    name = "sample" if documents is None else _corpus_name(documents)
    file = folder / f"{name}.yaml"
    if not file.exists():
        _write_demo(name, file, documents)
    if documents is not None:
        _make_questions(file)
    run_corpus(file, None, None, is_last=False)
    corpus = Corpus.load(file)
    say("")
    show_example(corpus, file, [_QUESTION] if documents is None else corpus.questions())
    show_next(
        rag("ask", "your question", file=file, corpus=name),
        (rag("serve", file=file, corpus=name), "each source marked on its page: 127.0.0.1:9003"),
        (rag("report", file=file, corpus=name), "the evaluation as a page"),
    )


def _write_demo(name: str, file: Path, documents: Path | None) -> None:
    """Write the corpus file of a demo into a new folder.

    If no documents are given, also copy the documents and questions of the sample.
    """
    from rag_pipeline.cli.init import proposed
    from rag_pipeline.pipeline.template import Choices, write_corpus_file

    folder, queries, choices = file.parent, None, Choices()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not a demo of {name}; name another folder")
    if documents is None:
        _copy_sample(folder)
        documents, queries = (folder / part for part in _SAMPLE)
    elif not documents.expanduser().exists():
        raise ConfigError(f"--folder {documents}: no such folder or file")
    else:
        choices = proposed(documents, file)
    folder.mkdir(parents=True, exist_ok=True)
    store = str(folder / "store")
    shown = shown_path(file)
    write_corpus_file(name, documents, queries, store, file, shown, force=False, choices=choices)
    say(f"wrote {escape(str(file))}")


def _make_questions(file: Path) -> None:
    """Make questions unless an earlier demo made them."""
    from rag_pipeline.cli.questions import RULES, Wanted, make_and_write
    from rag_pipeline.config import load_config
    from rag_pipeline.questions.files import queries_file

    target = queries_file(load_config(file))
    if not target.exists():
        say("First, all documents are read and questions are made of them.")
        try:
            make_and_write(file, Wanted(_DEMO_QUESTIONS), False, None, False, RULES, is_last=False)
        except InputError as error:  # a demo without questions still indexes and searches
            say(escape(str(error)))


def _copy_sample(folder: Path) -> None:
    """Copy the sample's files. A wheel has them beside the code, and a checkout in data/."""
    package = Path(__file__).parents[2]
    source = package / "sample" if (package / "sample").is_dir() else package.parent / "data"
    if not all((source / part).exists() for part in _SAMPLE):
        raise StoreError(f"{source}: the sample corpus is missing; install rag_pipeline again")
    shutil.copytree(source / "documents", folder / "documents")
    shutil.copy(source / "queries.jsonl", folder / "queries.jsonl")


@app.command(short_help="Print the JSON Schema of corpus files.")
def schema(output: Annotated[Path | None, option("FILE", "Write to this file.")] = None) -> None:
    """Print the JSON Schema of corpus files, with the settings of the installed plugins.

    An editor with a YAML language server completes and checks a corpus file that begins with
    `# yaml-language-server: $schema=FILE`. A file of `rag init` begins with this line,
    and its schema is in the store's folder. Write it again after you install a plugin.

    \b
    Examples:
      rag schema
      rag schema --output contracts.schema.json
    """
    from rag_pipeline.pipeline.template import write_schema

    if output is None:
        from rag_pipeline.config.schema import corpus_schema

        print_json(corpus_schema())
    else:
        write_schema(output.expanduser())
        say(f"wrote {escape(str(output))}")


@app.command("import", short_help="Turn a public data set into a corpus.")
def import_(
    format: Annotated[str, argument("FORMAT", _FORMATS)],
    source: Annotated[Path, argument("SRC", "The data set, as published.")],
    destination: Annotated[Path, argument("DEST", "A new folder.")],
    quiet: QuietFlag = False,
) -> None:
    """Write a public data set as `documents/` and `queries.jsonl`, with chunks in `chunks.jsonl`.

    \b
    Example:
      rag import legalbench-rag ~/LegalBench-RAG data/legalbench
    """
    from rag_pipeline.cli.tables import show_import
    from rag_pipeline.loading.importers import import_dataset

    set_quiet(quiet)
    with counting(f"import {format}", "documents") as progress:
        report = import_dataset(format, source.expanduser(), destination.expanduser(), progress)
    show_import(report, destination)


@app.command(short_help="Index, evaluate and release.")
def run(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    configuration: Annotated[
        str | None, option("NAME", "Only this configuration and its inputs.")
    ] = None,
    json_out: Annotated[Path | None, option("OUT", "File for the results.", "--json")] = None,
    allow_deletions: Annotated[
        bool, flag("--allow-deletions", "Delete more documents than documents.max_deleted allows.")
    ] = False,
    wait: Annotated[bool, flag("--wait", "Wait for another run of the corpus to end.")] = False,
    verbose: Annotated[bool, flag("--verbose", "Print a line for each step.")] = False,
    quiet: QuietFlag = False,
) -> None:
    """Bring everything up to date: index, evaluate, release. Only stale steps run.

    The next run continues a stopped run. No text is embedded twice.

    \b
    Examples:
      rag run contracts
      rag run contracts --configuration plain --json results.json
    """
    from rag_pipeline.cli.run import run_corpus

    set_quiet(quiet)
    run_corpus(
        find_corpus_file(corpus, named),
        configuration,
        json_out,
        allow_deletions=allow_deletions,
        wait=wait,
        verbose=verbose,
    )


@app.command(short_help="Show the work of the next `rag run`.")
def plan(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    as_json: JsonFlag = False,
    migrate: Annotated[tuple[str, str] | None, option("OLD NEW", _MIGRATE)] = None,
) -> None:
    """Show the work, time and costs of `rag run` by stage, without calls to remote models.

    New files are loaded and cut into chunks, even with --json. `rag run` reuses these chunks. With
    --migrate, the new model embeds a sample.

    \b
    Examples:
      rag plan contracts
      rag plan contracts --migrate minilm voyage
    """
    from rag_pipeline.cli.plan import show_migration, show_plan

    file = find_corpus_file(corpus, named)
    if migrate is None:
        show_plan(file, as_json)
    else:
        show_migration(file, *migrate, as_json)


@app.command(short_help="Print the text that was read from a document.")
def show(
    document: Annotated[str, argument("DOCUMENT", "The document's id.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    page: Annotated[int | None, option("N", "Only this page of a PDF, from 1.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print a document's text as the last run read it, with warnings about its quality.

    \b
    Examples:
      rag show papers/bert.pdf
      rag show papers/bert.pdf contracts --page 3
    """
    from rag_pipeline.cli.documents import show_document

    show_document(find_corpus_file(corpus, named), document, page, as_json)


@app.command(short_help="List the documents that can't be used, and why.")
def quarantine(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    retry: Annotated[bool, flag("--retry", "Let the next run try all documents again.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List all documents in quarantine, each with the stage that refused it and the reason.

    A run tries a document again if its file or the settings of that stage change.

    \b
    Examples:
      rag quarantine
      rag quarantine contracts --retry
    """
    from rag_pipeline.cli.documents import show_quarantine

    show_quarantine(find_corpus_file(corpus, named), retry, as_json)
