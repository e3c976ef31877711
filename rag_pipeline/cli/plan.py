"""Implement `rag plan`, which shows the steps of a run with their documents, calls and costs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from rag_pipeline.cli.console import console, new_table, print_json, show_next
from rag_pipeline.cli.costs import estimate_lines
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.inputs import check_inputs
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.config.endpoints import moved_models
from rag_pipeline.pipeline.dry_run import (
    ERROR,
    RERANKING,
    PlannedStep,
    is_known,
    plan_run,
    require_budget,
)
from rag_pipeline.pipeline.migration import METRIC, Prediction, predict
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace


def show_plan(file: Path, as_json: bool) -> None:
    """Print every step that would run, with its documents, chunks, prompts and texts."""
    config = load_config(file)
    check_inputs(config)
    workspace = Workspace(config)
    found = plan_run(workspace)
    if as_json:
        print_json([_row(f) for f in found])
        require_budget(workspace, found)
        return
    busy = [f for f in found if f.runs]
    if not busy:
        console.print(f"everything is current: a run would do nothing ({len(found)} steps checked)")
        for line in _notes(workspace.config):
            console.print(line)
        return
    table = new_table(title=f"{config.corpus}: what a run would do")
    table.add_column("step", overflow="fold", min_width=21)
    asks = any(row.asks != 0 for row in busy)
    for name in ("chunks", *(["to ask"] if asks else []), "to embed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what", overflow="fold", min_width=10)
    asset = ""
    for row in busy:
        partition = row.step.partition
        if partition and row.step.asset != asset:
            table.add_row(row.step.asset, *[""] * (2 + asks), f"[dim]{_doing(row)}[/dim]")
        asset = row.step.asset
        known = ASSETS.get(asset)
        embeds = known is not None and known.unit == "texts"
        table.add_row(
            escape(f"  {partition}" if partition else asset),
            _number(row.chunks, row.exact) if known and known.open_partition else "",
            *([_number(row.asks, row.exact) if row.asks != 0 else ""] if asks else []),
            _number(row.calls, row.exact) if row.calls != 0 or embeds else "",
            _documents(row) if partition or row.stale or row.orphaned else describe(row),
        )
    console.print(table)
    for line in (*totals(found), *estimate_lines(found), *_notes(workspace.config)):
        console.print(line)
    if config.budget_usd is not None and not is_known(found):
        console.print(
            f"budget_usd {config.budget_usd:g} is checked once the numbers behind '?' are known; "
            f"a run stops at the budget."
        )
    require_budget(workspace, found)
    show_next(rag("run", file=file, corpus=config.corpus))


def show_migration(file: Path, old: str, new: str, as_json: bool) -> None:
    """Print the predicted gain and cost of another embedding, measured on a sample."""
    config = load_config(file)
    check_inputs(config)
    found = predict(Workspace(config), old, new)
    if as_json:
        print_json(asdict(found))
        return
    for line in migration_lines(found, old):
        console.print(line)


def migration_lines(found: Prediction, old: str) -> Iterator[str]:
    """Yield the lines that describe a prediction."""
    whole = found.sampled == found.chunks
    sample = "all " if whole else f"{found.sampled:,} of "
    yield (
        f"{old} -> {found.new} for {found.key}, by {found.questions} questions over {sample}"
        f"{found.chunks:,} chunks:"
    )
    before, after = (f"{100 * share:.1f}" for share in found.shares)
    gain = found.gain
    assert gain.mean is not None
    interval = "one question: no interval"
    if gain.low is not None and gain.high is not None:
        interval = f"95 %: {100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
    points = f"{100 * gain.mean:+.1f} points ({interval})"
    yield f"  gain: {METRIC} {before} -> {after} %, {points}, by vectors alone"
    if not whole:
        yield "  A sample is easier to search than all chunks: the whole gain may be different."
    usd = "price unknown, set the model's `price`" if found.usd is None else f"{found.usd:.4f} USD"
    yield f"  price: {usd} for {found.left:,} texts, about {found.tokens:,} tokens ({ERROR})"
    if found.left and found.seconds is not None:
        yield f"  time: about {found.seconds / 60:.1f} minutes at the speed of the sample"
    yield "  The sample's vectors are kept: a run does not pay for them again."


def _notes(config: CorpusConfig) -> Iterator[str]:
    yield from moved_models(config)
    if config.unmeasured:
        yield config.unmeasured


def describe(row: PlannedStep) -> str:
    """Return the work of one step in words."""
    documents = _documents(row)
    return f"{_doing(row)}: {documents}" if documents else _doing(row)


def _doing(row: PlannedStep) -> str:
    asset = row.step.asset
    return ASSETS[asset].activity if asset in ASSETS else "let a model reorder the candidates"


def totals(found: Sequence[PlannedStep]) -> list[str]:
    """Return lines with the numbers of steps and texts of the whole run."""
    found = [f for f in found if f.step.asset != RERANKING]  # part of their retrieval runs
    busy = [f for f in found if f.runs]
    known = sum(f.calls for f in busy if f.calls is not None)
    current = len(found) - len(busy)
    rest = f", {current} {'is' if current == 1 else 'are'} current." if current else "."
    about = "" if all(f.exact for f in busy) else "About "
    texts = f"{about}{known:,} texts would be embedded; every other text is embedded already."
    if any(f.calls is None for f in busy):
        texts = f"{known:,} texts would be embedded, and the chunks ('?') that follow from them."
        if found[0].stale:
            texts = "The number of texts ('?') is known once the documents are loaded."
    return [f"{len(busy)} of {len(found)} steps would run{rest}", texts]


def _row(row: PlannedStep) -> dict[str, object]:
    record = asdict(row)
    step, _ = record.pop("step"), record.pop("why")
    return {**step, **record, "what": describe(row) if row.runs else ""}


def _number(value: int | None, exact: bool) -> str:
    return "?" if value is None else f"{'' if exact else '~'}{value:,}"


def _documents(row: PlannedStep) -> str:
    parts = []
    if row.stale:
        noun = "document" if row.stale == 1 else "documents"
        kind = "new or changed " if row.current else ""
        parts.append(f"{row.stale:,} {kind}{noun}" + (f" ({row.why})" if row.why else ""))
    elif row.why:
        parts.append(row.why)
    if row.orphaned:
        parts.append(f"drop {row.orphaned:,}")
    return ", ".join(parts)
