"""`rag run`: materialize with live progress, show the leaderboard, write the results."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape

from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.console import console, progress_bar
from rag_pipeline.cli.tables import show_chunks, show_leaderboard
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.runs import load_leaderboard, load_queries
from rag_pipeline.planning import Step
from rag_pipeline.workspace import Workspace


def run_corpus(file: Path, configuration: str | None, json_out: Path | None) -> None:
    """Run the corpus and print what came of it."""
    config = load_config(file)
    if configuration:
        config.configuration(configuration)
    if json_out and not json_out.resolve().parent.is_dir():
        raise ConfigError(f"--json {json_out}: there is no folder {json_out.resolve().parent}")
    # Dagster takes a second to import: not before the file is known to be right.
    from rag_pipeline.orchestration.runner import UNITS, StepResult, run

    started = time.perf_counter()
    results: list[StepResult] = []
    with progress_bar() as progress:

        def announce(step: Step, total: int | None) -> Callable[[str, int], None]:
            for task in progress.task_ids:
                progress.remove_task(task)
            unit = UNITS.get(step.asset, "")
            task = progress.add_task(str(step), total=total, unit=unit)

            def advance(what: str, count: int) -> None:
                if what == unit:
                    progress.advance(task, count)

            return advance

        for result in run(config, configuration, announce):
            results.append(result)
            if result.ran:
                console.print(_line(result.step, result.seconds, result.metadata))
    ran = [r for r in results if r.ran]
    calls = CallCounts()
    for result in ran:
        calls.add(result.calls)
    console.print(
        f"{len(ran)} of {len(results)} steps run in {time.perf_counter() - started:.1f} s; "
        f"{calls.made} texts embedded, {calls.saved} taken from the cache\n"
        if ran
        else f"everything is current: {len(results)} steps checked, nothing to do "
        f"({time.perf_counter() - started:.1f} s)\n"
    )
    workspace = Workspace(config)
    if json_out:
        summary = summarize_run(workspace, results, configuration)
        json_out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    show_leaderboard(load_leaderboard(workspace))
    _show_sample(config, file)


def summarize_run(workspace: Workspace, results: "list[Any]", only: str | None) -> dict[str, Any]:
    """Return `{corpus, configurations: [{name, metrics, seconds, calls}]}`.

    A text that several configurations share was embedded once: it counts as made for the first
    of them and as saved for the others, so the sum of `made` is the number of calls.
    """
    by_step = {result.step: result for result in results}
    board = {row["name"]: row for row in load_leaderboard(workspace)["configurations"]}
    counted: set[Step] = set()
    summaries = []
    for name, configuration in workspace.config.all_configurations.items():
        if only not in (None, name):
            continue
        own = [
            Step("chunks", configuration.chunking),
            Step("contextualized_chunks", configuration.context_key),
            Step("lexical_index", configuration.context_key),
            Step("vector_index", configuration.vector_key),
            Step("retrieval_run", name),
            Step("answer_presence", name),
        ]
        calls = CallCounts()
        for step in own:
            if step not in by_step:
                continue
            done = by_step[step].calls
            if step in counted:
                calls.saved += done.made + done.saved
            else:
                calls.add(done)
        counted.update(own)
        summaries.append(
            {
                "name": name,
                "metrics": board[name]["metrics"],
                "seconds": sum(by_step[step].seconds for step in own if step in by_step),
                "calls": {"embedding": {"made": calls.made, "saved": calls.saved}},
            }
        )
    return {"corpus": workspace.config.corpus, "configurations": summaries}


def _line(step: Step, seconds: float, metadata: dict[str, Any]) -> str:
    parts = []
    for key, unit in (
        ("documents_worked_on", "documents"),
        ("rows_written", "rows"),
        ("documents_dropped", "dropped"),
        ("documents_quarantined", "quarantined"),
        ("queries", "queries"),
        ("calls_made", "embedded"),
        ("calls_saved", "from cache"),
    ):
        if metadata.get(key):
            parts.append(f"{metadata[key]} {unit}")
    release = metadata.get("release")
    if release:
        parts.append(f"{release}: {metadata['configuration']}")
    text = escape(f"{step}  {', '.join(parts)}")
    return f"[green]✓[/green] {text}  [dim]{seconds:.1f} s[/dim]"


def _show_sample(config: CorpusConfig, file: Path) -> None:
    """Answer one of the corpus's own questions from the release, and say what to try next."""
    from rag_pipeline.corpus import Corpus

    corpus = Corpus(config)
    queries = load_queries(corpus.workspace)
    question = queries[0].query if queries else config.corpus.replace("_", " ")
    console.print(f'[bold]rag search "{escape(question)}"[/bold]')
    show_chunks(corpus.search(question, k=1))
    console.print(
        f"Next: [bold]rag search QUESTION -c {file}[/bold], "
        f"[bold]rag leaderboard -c {file}[/bold], "
        f"or change a threshold in {file} and [bold]rag plan {file}[/bold]"
    )
