"""Implement `rag questions import` and `label`, which sample a server's log and add gold spans."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    errors,
    indented,
    print_json,
    say,
    show_next,
    visible,
)
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import Chunk, GoldSpan, ScoredChunk
from rag_pipeline.errors import InputError
from rag_pipeline.loading.queries import SpanRecord
from rag_pipeline.loading.quotes import Searchable
from rag_pipeline.questions import files
from rag_pipeline.questions.query_log import (
    UNLABELLED,
    labelled,
    new_of,
    read_feedback,
    read_log,
    sample,
    torn_lines,
)
from rag_pipeline.search.excerpt import excerpt
from rag_pipeline.workspace import Workspace

_PASSAGES = 5
_KEYS = "Passages that answer: numbers such as 1 3, or [n]one, [d]rop, [s]kip, [q]uit"
_WORDS = "Copy the answering words from passage {} (Enter: all of it)"


def import_log(file: Path, log: Path, number: int, as_json: bool) -> None:
    """Sample at most `number` new questions of a log, and write them to the file for `label`."""
    config = load_config(file)
    asked = read_log(log)
    if torn := torn_lines(log):
        left_out = f"left out {counted(len(torn), 'incomplete line')}, the first is {log}:{torn[0]}"
        errors.print(left_out, markup=False)
    target = _unlabelled(config)
    known = [r.query for f in (files.queries_file(config), target) for r in files.read_questions(f)]
    models = Workspace(config).models(CallCounts())
    judged = new_of(read_feedback(log, config.corpus), known)[:number]
    known += [one.query for one in judged]
    rest = number - len(judged)
    found = [*judged, *sample(asked, rest, lambda texts: models.vectors(texts, None), known)]
    if not found:
        raise InputError(f"{log}: has no new question for {config.corpus}")
    added = files.add(target, [one.row() for one in found])
    if as_json:
        counts = {"asked": asked.total(), "distinct": len(asked), "questions": added}
        print_json({"file": str(target), **counts})
        return
    different = f"{counted(asked.total(), 'question')}, {len(asked)} different"
    say(f"{different}: {added} representative ones are in {visible(shown_path(target))}")
    for one in found[:_PASSAGES]:
        say(f"  {one.asked} x  {visible(one.query)}")
    show_next(rag("questions", "label", file=file, corpus=config.corpus))


def label_questions(file: Path) -> None:
    """Print the passages that the release finds for each question, and ask for gold spans."""
    corpus = Corpus.load(file)
    target = _unlabelled(corpus.config)
    waiting = files.read_questions(target)
    if not waiting:
        import_ = rag("questions", "import", "LOG", file=file, corpus=corpus.name)
        console.print(f"no question is waiting for its answer; add some: {command(import_)}")
        return
    queries = files.queries_file(corpus.config)
    done = 0
    for number, record in enumerate(waiting, 1):
        named = _named(corpus, record.gold_spans)
        found = [*named, *corpus.search(record.query, _PASSAGES)]
        say(f"\n[bold]{number}/{len(waiting)}[/bold]  {visible(record.query)}")
        for rank, chunk in enumerate(found, 1):
            mark = " (named by a user)" if rank <= len(named) else ""
            console.print(f"[bold]{rank}.[/bold] [cyan]{visible(chunk.document_id)}[/cyan]{mark}")
            say(indented(visible(excerpt(chunk.text, record.query, sys.maxsize).text)))
        gold = _gold(corpus, found)
        if gold is None:
            break
        if gold == "skip":
            continue
        if not isinstance(gold, str):
            row = record.model_dump(mode="json", exclude_defaults=True)
            row = files.with_quotes(labelled(row, gold), lambda d: corpus.document(d).text)
            files.add(queries, [row])
            if corpus.config.queries is None:
                files.name_in_corpus_file(file, queries)
            done += 1
        files.move(target, {record.query_id})
    console.print(f"{done} written to {visible(shown_path(queries))}")
    if done:
        show_next(rag("run", file=file, corpus=corpus.name))


def _named(corpus: Corpus, spans: Sequence[SpanRecord]) -> list[ScoredChunk]:
    """Return the passages that users named and that their documents still contain."""
    found = []
    for span in spans:
        with suppress(InputError):
            text = corpus.document(span.document_id).text
            for start, end in Searchable(text).find(span.quote or "")[:1]:
                chunk = Chunk(span.document_id, start, end, text[start:end])
                place = chunk.document_id, chunk.start, chunk.end
                found.append(ScoredChunk(chunk.chunk_id, *place, chunk.text, 0.0))
    return found


def _gold(corpus: Corpus, found: list[ScoredChunk]) -> list[GoldSpan] | str | None:
    """Ask for the gold spans and return them. Return `skip`, `drop`, or None to quit."""
    while True:
        said = typer.prompt(_KEYS, default="s", show_default=False).strip().casefold()
        if said in ("q", "s", "d", "n"):
            return {"q": None, "s": "skip", "d": "drop", "n": []}[said]
        numbers = said.replace(",", " ").split()
        if numbers and all(n.isdigit() and 1 <= int(n) <= len(found) for n in numbers):
            break
        console.print(f"{said[:40]!r} is neither a passage's number nor one of the letters")
    return [_within(corpus, found[int(n) - 1], n) for n in dict.fromkeys(numbers)]


def _within(corpus: Corpus, chunk: ScoredChunk, number: str) -> GoldSpan:
    """Ask for the answering words of a passage. If none are given, the whole passage is gold."""
    text = corpus.document(chunk.document_id).text[chunk.start : chunk.end]
    while True:
        words = typer.prompt(_WORDS.format(number), default="", show_default=False).strip()
        if not words:
            return GoldSpan(chunk.document_id, chunk.start, chunk.end)
        # One character may be a key of the prompt before. Cells are shown with " · " between them.
        at = Searchable(text).find(words.replace(" · ", " | ")) if len(words) > 1 else []
        if at:
            return GoldSpan(chunk.document_id, chunk.start + at[0][0], chunk.start + at[0][1])
        console.print("the passage does not contain these words, or they are one character")


def _unlabelled(config: CorpusConfig) -> Path:
    return files.queries_file(config).with_suffix(UNLABELLED)
