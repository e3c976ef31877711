"""Implement `rag run`, which shows live progress, the leaderboard and the release."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import Progress

from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    indented,
    outside_capture,
    progress_bar,
    say,
    visible,
)
from rag_pipeline.cli.costs import keep_outcome
from rag_pipeline.cli.documents import refusals
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.cli.inputs import check_inputs, check_models
from rag_pipeline.cli.tables import readable_names, show_chunks, show_leaderboard
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline.evaluation.leaderboard import Board, load_leaderboard
from rag_pipeline.evaluation.results import PRESENCE, QUERIES
from rag_pipeline.evaluation.runs import left_out, load_queries
from rag_pipeline.indexing import MADE_OTHERWISE, code_warning, text_warnings, window_warnings
from rag_pipeline.pipeline.driver import Done, Event, Started
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.dry_run.priced_models import asks_a_chat
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.pipeline.template import check_target, write_file
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace

_SHARED_WORDS = (
    ("documents_dropped", "dropped"),
    ("documents_quarantined", "quarantined"),
    ("documents_failed", "failed"),
    ("documents_longer_than_window", "longer than the model's window"),
    ("calls_made", "sent to models"),
    ("calls_saved", "cached"),
)
_MOST_PROBLEMS = 5
_LOGGED_EVERY = 10
"""Seconds between two lines about a stage in progress, without a terminal."""


def run_corpus(
    file: Path,
    configuration: str | None,
    json_out: Path | None,
    *,
    allow_deletions: bool = False,
    wait: bool = False,
    verbose: bool = False,
) -> None:
    """Run the corpus, and print its stages, leaderboard, problems and release.

    `json_out` is a file for the results. `allow_deletions` lifts the limit `documents.max_deleted`.
    With `wait`, wait for another run of the corpus to end. With `verbose`, print each step.
    """
    config = load_config(file)
    if allow_deletions:
        documents = config.documents.model_copy(update={"max_deleted": 1.0})
        config = config.model_copy(update={"documents": documents})
    if configuration:
        config.configuration(configuration)
    check_inputs(config)
    check_models(config, configuration)
    if json_out:
        check_target("--json", json_out)
    workspace = Workspace(config)
    with lease(workspace.store, wait, lambda said: console.print(f"waiting: {escape(said)}")):
        results = _run(workspace, config, configuration, verbose)
    if json_out:
        text = json.dumps(summarize_run(workspace, results, configuration), indent=1) + "\n"
        write_file("--json", json_out, text)
    if not console.quiet:
        board = Corpus(config).board()
        if board.is_measured:
            console.print()
            show_leaderboard(board)
        _show_problems(workspace)
        _show_release(config, file, board, ask=any(result.ran for result in results))


def _run(
    workspace: Workspace, config: CorpusConfig, configuration: str | None, verbose: bool
) -> list[Done]:
    started = time.perf_counter()
    plan = RunPlan(workspace, steps(config, configuration), always=True)
    position = workspace.ledger.position() if plan.pays else 0
    plan.estimate()
    costs = ""
    try:
        with outside_capture(), progress_bar() as progress:
            live = _Live(progress, plan, verbose)
            # Importing Dagster takes seconds, so it is imported after the checks.
            from rag_pipeline.orchestration.one_run import run_steps

            try:
                results = run_steps(plan, live.listen, live.advance)
            finally:
                live.end()
    finally:
        costs = keep_outcome(plan, position)
    ran = [r for r in results if r.ran]
    calls = CallCounts()
    for result in ran:
        calls.add(result.calls)
    told = f"everything is current: {len(results)} steps checked, nothing to do"
    if ran:
        current = f", {len(results) - len(ran)} were current" if len(ran) < len(results) else ""
        told = (
            f"{len(ran)} of {len(results)} steps run{current}; {calls.made:,} texts sent to "
            f"models, {calls.saved:,} taken from the cache"
        )
    console.print(f"{told}; {time.perf_counter() - started:.1f} s")
    if costs:
        console.print(costs)
    return results


class _Live:
    """Shows the progress of the current stage, and prints a line for each finished stage.

    A stage is all steps of one asset. Without a terminal, a line every 10 s replaces the bar. With
    `verbose`, each finished step has a line, too.
    """

    def __init__(self, progress: Progress, plan: RunPlan, verbose: bool) -> None:
        self._progress, self._plan, self._verbose = progress, plan, verbose
        self._steps = Counter(step.asset for step in plan.steps)
        self._left = Counter(self._steps)
        self._task = progress.add_task("starting", total=None, unit="", also="")
        self._spent = plan.workspace.ledger.spent() if plan.pays else 0.0
        self._finished: list[Done] = []
        self._asset = ""
        self._begun = 0
        self._work: float | None = 0
        self._also: Counter[str] = Counter()
        self._told = time.monotonic()

    def listen(self, event: Event) -> None:
        """Show that a step started or ended."""
        match event:
            case Started(step=step, total=work):
                if step.asset != self._asset:
                    self._begin(step)
                self._begun += 1
                unknown = None in (work, self._work)
                self._work = None if unknown else (self._work or 0) + (work or 0)
                # The steps of a stage that have not begun are taken to be as large as the others.
                rest = self._left[step.asset] - 1
                total = None if self._work is None else self._work * (1 + rest / self._begun)
                self._progress.update(self._task, total=total)
            case Done(step=step):
                self._left[step.asset] -= 1
                if event.ran:
                    self._finished.append(event)
                    if self._verbose:
                        console.print(_line(str(step), [event]))
                if not self._left[step.asset]:
                    self.end()

    def advance(self, step: Step, what: str, count: int) -> None:
        """Add `count` units of `what` to the progress of the current stage."""
        if what == step.row.unit:
            self._progress.advance(self._task, count)
        else:
            self._also[what] += count
        seconds = time.monotonic() - self._told
        if seconds < (_LOGGED_EVERY if self._progress.disable else 1):
            return
        self._told += seconds
        parts = [f"{n:,} {name}" for name, n in self._also.items()]
        if self._plan.pays:
            usd = self._plan.workspace.ledger.spent() - self._spent
            parts += [f"{usd:.4f} USD"] if usd else []
        also = ", ".join(parts)
        self._progress.update(self._task, also=also)
        if self._progress.disable:
            (task,) = self._progress.tasks
            total = f" of {task.total:,.0f}" if task.total else ""
            left = f", about {task.time_remaining:,.0f} s left" if task.time_remaining else ""
            done = f"{task.completed:,.0f}{total} {step.row.unit}" if step.row.unit else ""
            say(f"  {task.description}: {', '.join(filter(None, (done, also)))}{left}")

    def end(self) -> None:
        """Print the line of the current stage, unless the stage has no finished step."""
        if self._finished and not self._verbose:
            row, number = self._finished[0].step.row, len(self._finished)
            console.print(_line(f"{row.activity}{f' ({number})' * (number > 1)}", self._finished))
        self._finished.clear()

    def _begin(self, step: Step) -> None:
        self._asset, self._begun, self._work = step.asset, 0, 0
        self._also.clear()
        self._told = time.monotonic()
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(
            step.row.activity, total=None, unit=step.row.unit, also=""
        )


def summarize_run(
    workspace: Workspace, results: Sequence[Done], only: str | None
) -> dict[str, Any]:
    """Return the results as `{corpus, configurations: [{name, metrics, seconds, calls}]}`.

    `calls.embedding` counts the texts of steps without a chat model. Configurations can share a
    step. Its calls and seconds count for the first one, and its calls count as saved for the rest.
    """
    by_step = {result.step: result for result in results}
    board = {row.name: row for row in load_leaderboard(workspace).configurations}
    counted: set[Step] = set()
    summaries = []
    for name in workspace.config.all_configurations:
        if only not in (None, name):
            continue
        own = [step for step in steps(workspace.config, name) if step.partition]
        calls = CallCounts()
        seconds = 0.0
        for step in own:
            if step not in by_step:
                continue
            asks = asks_a_chat(workspace.config, step)
            done = CallCounts() if asks else by_step[step].calls
            if step in counted:
                calls.saved += done.made + done.saved
            else:
                calls.add(done)
                seconds += by_step[step].seconds
        counted.update(own)
        made = {"embedding": {"made": calls.made, "saved": calls.saved}}
        metrics = asdict(board[name])["metrics"]
        summaries.append({"name": name, "metrics": metrics, "seconds": seconds, "calls": made})
    return {"corpus": workspace.config.corpus, "configurations": summaries}


def _line(name: str, finished: Sequence[Done]) -> str:
    """Return the line of a step, or of a stage with several steps."""
    metadata: Counter[str] = Counter()
    for each in finished:
        for key, value in each.metadata.items():
            if isinstance(value, int):
                # The steps of a stage work on the same documents.
                same = key.startswith("documents_")
                metadata[key] = max(metadata[key], value) if same else metadata[key] + value
    words = (*finished[0].step.row.shown_counts, *_SHARED_WORDS)
    parts = [f"{metadata[key]:,} {word}" for key, word in words if metadata[key]]
    last = finished[-1]
    if last.metadata.get("release"):
        parts.append(f"{last.metadata['release']}: {last.metadata['configuration']}")
    done = f"  {escape(', '.join(parts))}" if parts else ""
    why = f"  ({last.why})" if last.why == MADE_OTHERWISE else ""
    seconds = sum(each.seconds for each in finished)
    return f"[green]✓[/green] {escape(name)}{done}{why}  [dim]{seconds:.1f} s[/dim]"


def _show_problems(workspace: Workspace) -> None:
    refused = [f"{refusal.document_id}: {refusal.reason}" for refusal in refusals(workspace)]
    _warn("in quarantine (not indexed)", "document", list(dict.fromkeys(refused)))
    _warn("of doubtful text (`rag show` prints it)", "document", text_warnings(workspace))
    for line in filter(None, (code_warning(workspace), *window_warnings(workspace))):
        say(f"[yellow]{escape(line)}[/yellow]")
    problems = QUERIES.note(workspace).get("problems", [])
    _warn("not in the documents", "gold span", problems)
    if lost := left_out(workspace):
        say(f"[yellow]{lost}[/yellow]")


def _warn(what: str, noun: str, problems: Sequence[str]) -> None:
    if problems:
        console.print(f"[yellow]{counted(len(problems), noun)} {what}:[/yellow]")
    for problem in problems[:_MOST_PROBLEMS]:
        say(f"  {visible(problem)}")
    if len(problems) > _MOST_PROBLEMS:
        console.print(f"  (and {len(problems) - _MOST_PROBLEMS:,} more)")


def _show_release(config: CorpusConfig, file: Path, board: Board, ask: bool) -> None:
    """Print the served release and the next commands. With `ask`, also search for a query."""
    corpus = Corpus(config)
    served = corpus.release()
    short = readable_names([row.name for row in board.configurations])
    name = short.get(served.configuration, served.configuration)
    console.print(f"\nServing {served.release_id}: {escape(name)}")
    if headline := board.headline(served.configuration):
        console.print(escape(headline))
    if ask and (question := _sample_question(corpus)):
        say(f"[bold]{indented(visible(question), '')}[/bold]")
        found = corpus.search(question, k=1)
        show_chunks(found, question, corpus.places(found))
    measured = config.queries_path is not None
    following = (
        (("search", "your question"), ""),
        (("leaderboard", "--sort", "nDCG@10"), "") if measured else (("questions",), "to measure"),
        (("plan",), f"after a change in the documents or in {escape(shown_path(file))}"),
    )
    console.print("Next:")
    for arguments, purpose in following:
        line = rag(*arguments, file=file, corpus=config.corpus)
        say(f"  {command(line)}" + (f"  [dim]# {purpose}[/dim]" if purpose else ""))


def _sample_question(corpus: Corpus) -> str | None:
    """Return the shortest query whose first chunk answers it.

    If there is none, return the first query, or None without queries.
    """
    queries = load_queries(corpus.workspace)
    scores = PRESENCE.rows(corpus.workspace, corpus.release().configuration)
    right = {row["query_id"] for row in scores if row["AnswerPresence@1"] == 1.0}
    known = [q.query for q in queries if q.query_id in right] or [q.query for q in queries[:1]]
    return min(known, key=len, default=None)
