"""Print passages and answers for users. Only what a search needs is imported."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rag_pipeline.cli.console import console, indented, say, tell, visible
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.search.excerpt import excerpt

if TYPE_CHECKING:
    from rag_pipeline.assistant.results import AssistedAnswer, Source
    from rag_pipeline.evaluation.explanation import GoldText, RankedPassage
    from rag_pipeline.loading.places import Place

_SNIPPET = 300


def show_chunks(
    chunks: Sequence[ScoredChunk], query: str, places: "Sequence[Place | None]" = ()
) -> None:
    """Print source, place, score and best-matching excerpt of each retrieved chunk."""
    if not chunks:
        console.print("nothing found")
    for rank, (chunk, place) in enumerate(zip_longest(chunks, places), 1):
        source = visible(source_of(chunk, place))
        lines = [f"[bold]{rank}.[/bold] [cyan]{source}[/cyan]  [dim]{chunk.score:.3f}[/dim]"]
        if chunk.copies:
            lines.append(f"[dim]{indented(visible(same_as(chunk.copies)))}[/dim]")
        if chunk.title:
            lines.append(f"[dim]{indented(visible(chunk.title))}[/dim]")
        lines += [indented(visible(excerpt(chunk.text, query, _SNIPPET))), ""]
        say("\n".join(lines))


NEAREST = 3
"""Number of passages that are shown if nothing answers."""
_CONFIDENCES = ((0.8, "high"), (0.4, "medium"), (0.0, "low"))


def answer_record(made: "AssistedAnswer") -> dict[str, Any]:
    """Return an answer as plain JSON values, as the server's `/v1/ask` does."""
    from rag_pipeline.client.records import Answer

    return Answer.model_validate(made).model_dump(mode="json")


def show_answer(made: "AssistedAnswer", trace: bool, places: "Sequence[Place | None]" = ()) -> None:
    """Print the answer, its sources, problems and warnings, and with `trace` its steps.

    `places` are those of the first `NEAREST` passages.
    """
    for line in made.text.splitlines():
        shown = visible(line)
        for sentence in map(visible, made.doubted):
            shown = shown.replace(sentence, f"[red]{sentence}[/red] (not supported)")
        tell(shown)
    if not made.answered and made.passages:
        console.print("\nThe nearest passages, which may not answer it:\n")
        show_chunks(made.passages[:NEAREST], made.query, places)
    if made.answered and made.confidence is not None:
        word = next(word for least, word in _CONFIDENCES if made.confidence >= least)
        say(f"[dim]Confidence: {word} ({made.confidence:.2f})[/dim]")
    if made.sources:
        console.print()
    for source in made.sources:
        mark = "" if source.supports else " [red](does not support the sentence)[/red]"
        if not source.verified:
            mark = " [red](not in the document)[/red]"
        added = ""
        if origin := source.origin:
            found = f"found outside: {origin['source']}, {origin['place']}, {origin['time'][:10]}"
            found += f", for “{origin['query']}”"
            added = f" [yellow]({visible(found)})[/yellow]"
        where = source_of(source, source.place)
        console.print(f"\\[{source.number}] [bold]{visible(where)}[/bold]{mark}{added}")
        if source.copies:
            say(f"    [dim]{visible(same_as(source.copies))}[/dim]")
    for problem in made.problems:
        tell(f"[red]{visible(problem)}[/red]")
    for warning in made.warnings:
        tell(f"[yellow]{visible(warning)}[/yellow]")
    if trace:
        console.print()
        for entry in made.trace:
            detail = ", ".join(f"{name}: {value}" for name, value in entry.detail.items())
            line = f"{entry.name} ({1000 * entry.seconds:.0f} ms) {detail}"
            say(f"[dim]{visible(line)}[/dim]")


def same_as(copies: Sequence[str]) -> str:
    """Return a sentence with the names of a document's copies."""
    return f"the same text: {', '.join(copies)}"


def source_of(
    span: "ScoredChunk | Source | RankedPassage | GoldText", place: "Place | None"
) -> str:
    """Return document and place of a span as text. Without a place, use the offsets."""
    return f"{span.document_id}[{place.label if place else f'{span.start}:{span.end}'}]"
