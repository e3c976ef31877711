"""Print passages and answers for users. Imports that a search does not need are in functions."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_pipeline.cli.console import console, indented, say, tell, visible
from rag_pipeline.search.excerpt import readable
from rag_pipeline.serving.local import NEAREST

if TYPE_CHECKING:
    from rag_pipeline.assistant import AssistedAnswer
    from rag_pipeline.client.records import Answer, Passage, Source
    from rag_pipeline.evaluation.explanation import GoldText, RankedPassage

_HEAD = re.compile(r"^(?:\|[^|\n]*\|[^|\n]*\|\n)?\|(?: *:?-+:? *\|)+\n", re.M)
"""Matches the head of a Markdown table with two columns, and the line below any other head."""
_BAR = re.compile(r"(?<!\\)\|")


def show_passages(passages: "Sequence[Passage]", *, scored: bool = True) -> None:
    """Print source, place, score (if `scored`) and best-matching excerpt of each passage."""
    if not passages:
        console.print("nothing found")
    for rank, chunk in enumerate(passages, 1):
        part = chunk.model_copy(update=dict(chunk.excerpt or ()))
        source = visible(source_of(part))
        score = f"  [dim]{chunk.score:.3f}[/dim]" if scored else ""
        lines = [f"[bold]{rank}.[/bold] [cyan]{source}[/cyan]{score}"]
        if chunk.copies:
            lines.append(f"[dim]{indented(visible(same_as(chunk.copies)))}[/dim]")
        shown = visible(part.text)
        if chunk.title and not shown.startswith(visible(chunk.title)):
            lines.append(f"[dim]{indented(visible(chunk.title))}[/dim]")
        columns = visible(chunk.context.partition("columns: ")[2])
        if columns and columns not in shown:
            lines.append(f"[dim]{indented(f'columns: {columns}')}[/dim]")
        lines += [indented(shown), ""]
        say("\n".join(lines))
    if passages and scored:
        told = "Scores order the passages of one search. They may exceed 1: no probabilities."
        console.print(told, style="dim")


def show_answer(made: "AssistedAnswer | Answer", trace: bool) -> None:
    """Print the answer, its sources, problems and warnings, and with `trace` its steps."""
    from rag_pipeline.client.records import Answer

    made = Answer.model_validate(made)
    _show_text(made)
    if not made.answered and made.passages:
        say(f"\n{made.nearest_said}\n")
        show_passages(made.passages[:NEAREST], scored=False)
    if made.confidence_said:
        say(f"[dim]{made.confidence_said}[/dim]")
    if made.sources:
        console.print()
    _show_sources(made.sources)
    for colour, notes in (("red", made.problems), ("yellow", made.warnings)):
        for note in notes:
            tell(f"[{colour}]{visible(note)}[/{colour}]")
    if trace:
        console.print()
        for entry in made.trace:
            detail = ", ".join(f"{n}: {_plain(value)}" for n, value in entry.detail.items())
            line = f"{entry.name} ({1000 * entry.seconds:.0f} ms) {detail}"
            say(f"[dim]{visible(line)}[/dim]")


def _plain(value: Any) -> str:
    """Return a detail of a step in words."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value)) or "none"
    words = {"True": "yes", "False": "no", "None": "none", "": "none"}
    return f"{value:.3g}" if isinstance(value, float) else words.get(str(value), str(value))


def _show_text(made: "Answer") -> None:
    """Print an answer's text. Below the first cell of a table's row, print the other cells."""
    for line in _HEAD.sub("", made.text).splitlines():
        cells = [c.strip().replace("\\|", "|") for c in _BAR.split(line)] if line[:1] == "|" else []
        for number, part in enumerate(cells[1:-1] or [line]):
            shown = visible(readable(part))
            for sentence in (visible(readable(one)) for one in made.doubted):
                shown = shown.replace(sentence, f"[red]{sentence}[/red] (not supported)")
            tell(indented(shown) if number else f"[bold]{shown}[/bold]" if cells else shown)


def _show_sources(sources: "Sequence[Source]") -> None:
    """Print the sources, with one line for all places of a document."""
    documents: dict[tuple[str, str], dict[str, str]] = {}
    for source in sources:
        told = "" if source.supports else " [red](does not support the sentence)[/red]"
        if not source.verified:
            told = " [red](not in the document)[/red]"
        if origin := source.origin:
            found = f"found outside: {origin['source']}, {origin['place']}, {origin['time'][:10]}"
            found += f", for “{origin['query']}”"
            told += f" [yellow]({visible(found)})[/yellow]"
        if source.copies:
            told += f"\n    [dim]{visible(same_as(source.copies))}[/dim]"
        places = documents.setdefault((visible(source.document_id), told), {})
        where = visible(source_of(source))
        places[where] = f"{places.get(where, '')}\\[{source.number}] "
    for (name, told), places in documents.items():
        first, *more = (f"{numbers}[bold]{where}[/bold]" for where, numbers in places.items())
        tell(" ".join([first, *(one.replace(name, "", 1) for one in more)]) + told)


def same_as(copies: Sequence[str]) -> str:
    """Return a sentence with the names of a document's copies."""
    return f"the same text: {', '.join(copies)}"


def source_of(span: "Passage | Source | RankedPassage | GoldText") -> str:
    """Return document and place of a span as text. If the place is None, use the offsets."""
    place = (
        span.place["label"] if isinstance(span.place, Mapping) else span.place and span.place.label
    )
    return f"{span.document_id}[{place or f'{span.start}:{span.end}'}]"
