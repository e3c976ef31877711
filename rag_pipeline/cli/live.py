"""Show the progress of a run: a bar on a terminal, else a line every 10 seconds."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from rich.markup import escape
from rich.progress import Progress

from rag_pipeline.cli.console import LOGGED_EVERY, console, say, visible
from rag_pipeline.indexing import MADE_OTHERWISE
from rag_pipeline.pipeline.driver import Done, Event, Started
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import DOCUMENTS, FileChanges, Step, changed_files
from rag_pipeline.release.candidate import CHOSEN

_SHARED_WORDS = (
    ("documents_dropped", "removed"),
    ("documents_quarantined", "quarantined"),
    ("documents_failed", "failed"),
    ("documents_longer_than_window", "longer than the model's window"),
)
_NAMED = 5
"""Maximum number of documents that are named for each kind of change, such as added documents."""
_LEAST_PERCENT = 5
"""Without a terminal, lines show the remaining time from this percentage of the work on."""


class Live:
    """A display of the current stage's progress, with a line for each finished stage.

    A stage is all steps of one asset. Without a terminal, a line every 10 s replaces the bar. With
    `verbose`, each finished step has a line instead. If `stages` is False, stages have no line.
    """

    def __init__(
        self, progress: Progress, plan: RunPlan, verbose: bool = False, stages: bool = True
    ) -> None:
        self._progress, self._plan, self._verbose = progress, plan, verbose
        self._stages = stages
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
                # Expect the other steps of the stage to be as large as those that have begun.
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
                if step == DOCUMENTS and self._stages:
                    for line in changed_lines(changed_files(self._plan.workspace)):
                        say(line)

    def advance(self, step: Step, what: str, count: int) -> None:
        """Add `count` units of `what` to the progress of the current stage."""
        if what == step.row.unit:
            self._progress.advance(self._task, count)
        else:
            self._also["texts embedded" if what == "texts" else what] += count
        seconds = time.monotonic() - self._told
        if seconds < (LOGGED_EVERY if self._progress.disable else 1):
            return
        self._told += seconds
        (task,) = self._progress.tasks
        if task.total is not None and task.completed > task.total:  # more work than expected
            self._progress.update(self._task, total=None)
        parts = [f"{n:,} {name}" for name, n in self._also.items()]
        if self._plan.pays:
            usd = self._plan.workspace.ledger.spent() - self._spent
            parts += [f"{usd:.4f} USD"] if usd else []
        also = ", ".join(parts)
        self._progress.update(self._task, also=also)
        if self._progress.disable:
            total = f" of {task.total:,.0f}" if task.total else ""
            # The rate of the first few percent is unreliable.
            ahead = task.time_remaining if task.percentage >= _LEAST_PERCENT else None
            left = f", about {ahead:,.0f} s left" if ahead else ""
            done = f"{task.completed:,.0f}{total} {step.row.unit}" if step.row.unit else ""
            say(f"  {task.description}: {', '.join(filter(None, (done, also)))}{left}")

    def end(self) -> None:
        """Print the line of the current stage, unless the stage has no finished step."""
        if self._finished and self._stages and not self._verbose:
            ways = f", {len(self._finished)} ways" * (len(self._finished) > 1)
            console.print(_line(self._finished[0].step.row.activity + ways, self._finished))
        self._finished.clear()

    def _begin(self, step: Step) -> None:
        self._asset, self._begun, self._work = step.asset, 0, 0
        self._also.clear()
        self._told = time.monotonic()
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(
            step.row.activity, total=None, unit=step.row.unit, also=""
        )


def changed_lines(changes: FileChanges) -> Iterator[str]:
    """Yield a line for each kind of change, with the names of the first documents."""
    again = {f"read again {why}": names for why, names in changes.read_again.items()}
    for word, names in {**changes._asdict(), "read_again": (), **again}.items():
        if names:
            rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            told = f"{', '.join(map(visible, names[:_NAMED]))}{rest}"
            yield f"{word.replace('_', ' ')} ({len(names):,}): {told}"


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
    new, known = metadata["calls_made"], metadata["calls_saved"]
    if words and new + known == metadata[words[0][0]]:
        words = (*words, ("calls_made", "new to the model"), ("calls_saved", "known"))
    else:  # a call is no row, so only the new calls are told
        words = (*words, ("calls_made", "texts new to the model"))
    single = partial(re.sub, r"^(\w+?)(?:(?<=ch)es|s)\b", r"\1")
    parts = [f"{n:,} {w if n > 1 else single(w)}" for key, w in words if (n := metadata[key])]
    last = finished[-1]
    if last.metadata.get("release"):
        parts.append(f"{last.metadata['release']}: {last.metadata['configuration']}")
    done = f"  {escape(', '.join(parts))}" if parts else ""
    why = f"  ({last.why})" if last.why == MADE_OTHERWISE or CHOSEN in last.why else ""
    seconds = sum(each.seconds for each in finished)
    return f"[green]✓[/green] {escape(name)}{done}{why}  [dim]{seconds:.1f} s[/dim]"
