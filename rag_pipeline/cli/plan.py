"""`rag plan`: what a run would do, per asset and partition, in words and numbers."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from rag_pipeline.cli.console import command, console, print_json
from rag_pipeline.cli.find import option_for
from rag_pipeline.cli.forecast import Forecast, forecast
from rag_pipeline.cli.inputs import check_inputs
from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace

_WHAT = {
    "queries": "find the gold spans in the documents",
    "lexical_index": "index all chunks anew for BM25",
    "retrieval_run": "search with every query",
    "answer_presence": "measure against the gold spans",
    "leaderboard": "compare the configurations",
    "release": "release the best, if that is another build",
}
_VERBS = {
    "documents": "load",
    "chunks": "chunk",
    "contextualized_chunks": "put contexts before the chunks of",
    "vector_index": "embed the chunks of",
}


def show_plan(file: Path, as_json: bool) -> None:
    """Print every step that would run, with its documents, chunks and texts to embed."""
    config = load_config(file)
    check_inputs(config)
    found = forecast(Workspace(config))
    if as_json:
        print_json([_row(f) for f in found])
        return
    busy = [f for f in found if f.runs]
    if not busy:
        console.print(f"everything is current: a run would do nothing ({len(found)} steps checked)")
        return
    table = Table(
        title=f"{config.corpus}: what a run would do",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
    table.add_column("step", overflow="fold", min_width=21)
    for name in ("chunks", "to embed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what", overflow="fold", min_width=10)
    for row in busy:
        shows_chunks = row.step.asset in ("chunks", "contextualized_chunks", "vector_index")
        calls = _number(row.calls, row.exact)
        table.add_row(
            str(row.step),
            _number(row.chunks, row.exact) if shows_chunks else "",
            calls if calls != "0" or row.step.asset == "vector_index" else "",
            escape(describe(row)),
        )
    console.print(table)
    for line in totals(found):
        console.print(line)
    shown = option_for(file, config.corpus).removeprefix(" -c")
    console.print(f"Next: {command(f'rag run{shown}')}", soft_wrap=True)


def describe(row: Forecast) -> str:
    """Return in words what a run would do in one step."""
    if row.step.asset not in _VERBS:
        return _WHAT[row.step.asset]
    parts = []
    if row.stale:
        new = " new or changed" if row.step.asset == "documents" and row.current else ""
        parts.append(f"{_VERBS[row.step.asset]} {_documents(row.stale, new)}")
    if row.orphaned:
        parts.append(f"drop {_documents(row.orphaned)}")
    return ", ".join(parts)


def totals(found: Sequence[Forecast]) -> list[str]:
    """Return what all steps add up to."""
    busy = [f for f in found if f.runs]
    known = sum(f.calls for f in busy if f.calls is not None)
    exact = all(f.exact for f in busy)
    unknown = any(f.calls is None for f in busy)
    current = len(found) - len(busy)
    lines = [
        f"{len(busy)} of {len(found)} steps would run"
        + (f", {current} {'is' if current == 1 else 'are'} current." if current else ".")
    ]
    if unknown and found[0].stale:
        lines.append(
            "How many texts are embedded ('?') is known once the documents are loaded: a text "
            "that was embedded before is not sent again."
        )
    elif unknown:
        lines.append(
            f"{known:,} texts would be embedded, and then the chunks ('?') that depend on their "
            f"vectors."
        )
    else:
        lines.append(
            f"{'' if exact else 'About '}{known:,} texts would be embedded; every other text "
            f"was embedded before or stands in more than one place."
        )
    return lines


def _row(row: Forecast) -> dict[str, object]:
    return {
        "asset": row.step.asset,
        "partition": row.step.partition,
        "runs": row.runs,
        "stale": row.stale,
        "orphaned": row.orphaned,
        "current": row.current,
        "chunks": row.chunks,
        "calls": row.calls,
        "exact": row.exact,
        "what": describe(row) if row.runs else "",
    }


def _number(value: int | None, exact: bool) -> str:
    return "?" if value is None else f"{'' if exact else '~'}{value:,}"


def _documents(count: int, kind: str = "") -> str:
    return f"{count:,}{kind} {'document' if count == 1 else 'documents'}"
