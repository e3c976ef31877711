"""Implement `rag run`, which shows live progress, the leaderboard and the release."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    errors,
    outside_capture,
    progress_bar,
    say,
    set_verbose,
    show_next,
    tell,
)
from rag_pipeline.cli.costs import keep_outcome
from rag_pipeline.cli.documents import coverage, refusals, show_list, show_lost_queries
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.cli.inputs import check_inputs, check_models
from rag_pipeline.cli.live import Live
from rag_pipeline.cli.passages import show_answer
from rag_pipeline.cli.tables import show_leaderboard
from rag_pipeline.config import CorpusConfig, ExtractiveAnswers, load_config
from rag_pipeline.corpus import Corpus
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.indexing import code_warning, text_warnings, window_warnings
from rag_pipeline.pipeline.driver import Done
from rag_pipeline.pipeline.dry_run import START, RunPlan, keep_durations
from rag_pipeline.pipeline.dry_run.priced_models import asks_a_chat
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.pipeline.template import check_target, write_file
from rag_pipeline.release.candidate import choose
from rag_pipeline.release.holds import kept_release
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace


def run_corpus(
    file: Path,
    configuration: str | None,
    json_out: Path | None,
    *,
    allow_deletions: bool = False,
    wait: bool = False,
    verbose: bool = False,
    is_last: bool = True,
) -> None:
    """Run the corpus, and print its stages, leaderboard, problems and release.

    `json_out` is a file for the results. `allow_deletions` lifts the limit `documents.max_deleted`.
    With `wait`, wait for another run of the corpus to end. With `verbose`, print each step.
    Without `is_last`, the caller prints more, so omit an example and the next commands.
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
    if verbose:
        set_verbose(True)
    workspace = Workspace(config)
    with lease(workspace.store, wait, lambda said: console.print(f"waiting: {escape(said)}")):
        results = _run(workspace, configuration, verbose)
    if json_out:
        text = json.dumps(summarize_run(workspace, results, configuration), indent=1) + "\n"
        write_file("--json", json_out, text)
    kept = kept_release(workspace)
    if not console.quiet:
        board, served = Corpus(config).board(), Corpus(config).release()
        if board.is_measured:
            tell(f"\n{escape(board.headline(served.configuration))}\n")
            show_leaderboard(replace(board, queries_left_out=0, synthetic=0))  # told elsewhere
        _show_problems(workspace)
        name = board.labels().get(served.configuration, served.configuration)
        console.print(f"\nServing {served.release_id}: {escape(name)}")
        starts = ("not chosen", "none of") if board.names()[:1] == [served.configuration] else ""
        for reason in [] if kept else choose(workspace)[1]:  # an old release's may be untrue now
            if reason.startswith(starts):
                tell(f"[yellow]{escape(reason)}[/yellow]")
    if kept:  # also with --quiet, because the run releases nothing
        (errors.print if console.quiet else tell)(f"[yellow]{escape(kept)}[/yellow]")
    if not console.quiet and is_last:
        _show_next(config, file, search=any(result.ran for result in results))


def _run(workspace: Workspace, configuration: str | None, verbose: bool) -> list[Done]:
    started, cpu = time.perf_counter(), time.process_time()
    plan = RunPlan(workspace, steps(workspace.config, configuration), always=True)
    position = workspace.ledger.position() if plan.pays else 0
    plan.estimate()
    costs = ""
    try:
        with outside_capture(), progress_bar() as progress:
            live = Live(progress, plan, verbose)
            # Importing Dagster takes seconds, so it is imported after the checks.
            from rag_pipeline.orchestration.one_run import run_steps

            try:
                results = run_steps(plan, live.listen, live.advance)
            finally:
                live.end()
    finally:
        costs = keep_outcome(plan, position)
    ran = [r for r in results if r.ran]
    if ran:
        _keep_durations(workspace, ran, time.process_time() - cpu)
    every, new = counted(len(results), "step"), sum(r.calls.made for r in ran)
    told = f"{len(ran)} of {every} had work; {counted(new, 'text')} new to the models"
    if not ran:
        told = f"nothing to do: all {every} are up to date"
    console.print(f"{told}; {time.perf_counter() - started:.1f} s")
    if costs:
        console.print(costs)
    return results


def _keep_durations(workspace: Workspace, ran: Sequence[Done], cpu: float) -> None:
    """Store the processor time of each step that embedded nothing, and of the work outside steps.

    `cpu` is the processor time of the whole run, in seconds.
    """
    spent = {Step(START): cpu - sum(done.cpu_seconds for done in ran)}
    for done in ran:
        if not (done.calls.made and done.step.row.table is not None):
            spent[done.step] = done.cpu_seconds
    rows = {done.step: done.metadata.get("rows_written", 0) for done in ran}
    keep_durations(workspace, {s: n for s, n in rows.items() if isinstance(n, int)}, spent)


def summarize_run(
    workspace: Workspace, results: Sequence[Done], only: str | None
) -> dict[str, Any]:
    """Return the results as `{corpus, configurations: [{name, metrics, seconds, calls}]}`.

    `calls.embedding` counts the texts of steps without a chat model. If configurations share a
    step, its calls and seconds count for the first of them. For the others, the calls count as
    saved.
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


def _show_problems(workspace: Workspace) -> None:
    tell(f"\n{coverage(workspace)}")
    refused = [f"{refusal.document_id}: {refusal.reason}" for refusal in refusals(workspace)]
    for told, problems in (
        ("in quarantine (not indexed)", list(dict.fromkeys(refused))),
        ("with doubtful text (`rag show` prints it)", text_warnings(workspace)),
    ):
        if problems:
            show_list(f"{counted(len(problems), 'document')} {told}", problems)
    for line in filter(None, (code_warning(workspace), *window_warnings(workspace))):
        tell(f"[yellow]{escape(line)}[/yellow]")
    show_lost_queries(workspace)


def _show_next(config: CorpusConfig, file: Path, search: bool) -> None:
    """Print the next commands. With `search`, first print an example if answers are free."""
    corpus = Corpus(config)
    quotes = isinstance(config.evaluation.answers, ExtractiveAnswers)
    if search and quotes and not config.assistant.chat:
        show_example(corpus, file, corpus.questions())
    measured = config.queries_path is not None
    following = (
        (("ask", "your question"), ""),
        (("report",), "the evaluation as a page") if measured else (("questions",), "to measure"),
        (("plan",), f"after a change in the documents or in {shown_path(file)}"),
    )
    show_next(*((rag(*one, file=file, corpus=config.corpus), why) for one, why in following))


def show_example(corpus: Corpus, file: Path, questions: Sequence[str]) -> None:
    """Print the first question that has an answer, with the answer. If none has, print nothing."""
    from rag_pipeline.assistant import open_assistant

    for question in sorted(questions, key=lambda one: "'" in one):  # which a shell must escape
        answer = open_assistant([corpus]).ask(question)
        if answer.answered:
            say(command(rag("ask", question, file=file, corpus=corpus.name)))
            show_answer(answer, trace=False)
            console.print()
            return
