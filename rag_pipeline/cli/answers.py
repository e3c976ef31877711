"""An assistant's answer on a terminal or as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rag_pipeline.assistant import AssistedAnswer
from rag_pipeline.cli.console import console, say, visible
from rag_pipeline.cli.tables import source_of


def as_record(made: AssistedAnswer) -> dict[str, Any]:
    """Return an answer as plain JSON values."""
    record = asdict(made)
    record["passages"] = [{"corpus": p.corpus, **p.record()} for p in made.passages]
    for source, made_source in zip(record["sources"], made.sources, strict=True):
        source["place"] = made_source.place and made_source.place.record()
    return record


def show_answer(made: AssistedAnswer, trace: bool) -> None:
    """Print the answer, its sources, problems and warnings, and with `trace` the stages."""
    for line in made.text.splitlines():
        say(visible(line))
    if made.sources:
        console.print()
    for source in made.sources:
        mark = "" if source.verified else " [red](not in the document)[/red]"
        added = f" [yellow]({_origin(source.origin)})[/yellow]" if source.origin else ""
        where = source_of(source, source.place)
        console.print(f"\\[{source.number}] [bold]{visible(where)}[/bold]{mark}{added}")
    for problem in made.problems:
        say(f"[red]{visible(problem)}[/red]")
    for warning in made.warnings:
        say(f"[yellow]{visible(warning)}[/yellow]")
    if trace:
        console.print()
        for entry in made.trace:
            detail = ", ".join(f"{name}: {value}" for name, value in entry.detail.items())
            line = f"{entry.name} ({1000 * entry.seconds:.0f} ms) {detail}"
            say(f"[dim]{visible(line)}[/dim]")


def _origin(origin: Mapping[str, Any]) -> str:
    found = f"found outside: {origin['source']}, {origin['place']}, {origin['time'][:10]}"
    return visible(f"{found}, for “{origin['query']}”")
