"""Let a real daemon keep three small corpora current through changes, mistakes and accidents.

Prints a row per event: runs, steps made, seconds from the event to the end of the last run, their
CPU seconds with those of the daemon, and seconds and CPU seconds of `rag run` for the same change
of a copy. After each event nothing may be stale, no run unfinished, and no slot of a pool taken.
Sensors tick every 5 seconds, to leave out most of the daemon's own waiting. The daemon's home stays
in FOLDER, to be looked at in the UI.

Then prints the CPU seconds of Dagster's job relative to `rag run` (`ratio`), ticks and bytes of 100
runs (`hundred`), and the CPU seconds of a daemon and its code server at rest (`rest`). With words,
prints only the events and parts whose names contain one of them.

    python -m benchmarks.bench_automation FOLDER [WORD…]
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import dagster as dg

from benchmarks.daemons import (
    BROKEN_SECONDS,
    Corpus,
    Cost,
    Daemon,
    daemon_of,
    rag,
    small,
    stopped,
)
from benchmarks.processes import cpu_of_children
from rag_pipeline_tests.testing.dagster_projects import (
    ask,
    command,
    environment,
    execute,
    write_project,
)

REST_SECONDS = 300
HUNDRED = 100
NAMES = ("first", "second", "third")


Happening = Callable[[], object]


def _events(
    daemon: Daemon, alone: Corpus, also: list[Corpus]
) -> Iterator[tuple[str, list[Happening], list[Happening]]]:
    """Yield each event: its name, what happens, and the same by `rag run` on copies, if it can."""
    first = daemon.corpora[0]
    changes: dict[str, Callable[[Corpus], None]] = {
        "a chunking's threshold": partial(Corpus.set_threshold, characters=140),
        "a document edited": Corpus.edit,
        "a document added": Corpus.add_document,
        "the embedding changed": Corpus.set_embedding,
        "a document deleted": Corpus.delete_document,
        "a configuration removed": Corpus.remove_configuration,
    }
    run = partial(rag, alone, "run", "-q")
    for what, change in changes.items():
        yield what, [partial(change, first)], [partial(change, alone), run]
    for what, characters, happens, same in (
        ("a run canceled, then another change", 130, [daemon.cancel, first.edit],
         [partial(stopped, alone, signal.SIGINT), alone.edit, run]),
        ("a run's process killed", 120, [daemon.kill],
         [partial(stopped, alone, signal.SIGKILL), run]),
        ("a machine killed", 110, [daemon.kill_machine], []),
    ):  # fmt: skip
        cut = [partial(corpus.set_threshold, characters) for corpus in (first, alone)]
        yield what, [cut[0], *happens], [cut[1], *same] if same else []
    fail = [daemon.fault.touch, first.edit, daemon.mend]
    yield "a partition failed, then another change", [*fail, first.edit], []
    everything = partial(daemon.backfill, first, "recursive_150", "markdown")
    what = "a backfill of all partitions, one fails"
    yield what, [daemon.fault.touch, everything, daemon.mend], []
    repairs = [partial(rag, corpus, "doctor", "--repair") for corpus in (first, alone)]
    refused = partial(rag, alone, "run", "-q", check=False)
    yield (
        "a blocking check failed, then repaired",
        [first.alter_chunk, daemon.mend, repairs[0]],
        [alone.alter_chunk, refused, repairs[1], run],
    )
    edits: list[Happening] = [corpus.edit for corpus in (alone, *also)]
    runs = [partial(rag, corpus, "run", "-q") for corpus in (alone, *also)]
    yield "three corpora at once", [corpus.edit for corpus in daemon.corpora], [*edits, *runs]
    broken = partial(daemon.break_code, first)
    yield f"unloadable for {BROKEN_SECONDS} s, a document edited", [broken], []


def trial(folder: Path, wanted: Callable[[str], bool]) -> None:
    """Print what each event cost."""
    theirs, *also = [small(folder / "alone" / name, name) for name in NAMES]
    for corpus in (theirs, *also):
        rag(corpus, "run", "-q")
    corpora = [small(folder / name, name) for name in NAMES]
    print(f"{'':44} {'runs':>5} {'steps':>6} {'their processes':>18} {'daemon':>9} {'rag run':>18}")
    with daemon_of(corpora) as daemon:
        for what, happens, same in _events(daemon, theirs, also):
            if not wanted(what):
                continue
            cost = daemon.costs_of(*happens)
            line = f"{what:44} {cost.runs:5} {cost.steps:6} "
            line += f"{cost.seconds:6.1f} s {cost.cpu:5.1f} CPU {cost.idle_cpu:5.1f} CPU"
            least = [found for happen in same if isinstance(found := happen(), Cost)]
            if least:
                seconds, cpu = sum(one.seconds for one in least), sum(one.cpu for one in least)
                line += f" {seconds:6.1f} s {cpu:5.1f} CPU"
            print(line, flush=True)


def ratio(folder: Path) -> None:
    """Print the CPU seconds of Dagster's job of a change, and of `rag run` for the same change."""
    theirs, ours = small(folder / "ratio/alone", "alone"), small(folder / "ratio/ours", NAMES[0])
    project = write_project(ours.file.parent, ours.file)
    line = command("dagster", "job", "execute", "-f", project, "-j", "first__bring_up_to_date")
    there, found = environment(ours.file.parent), list[tuple[float, float]]()
    for characters in (150, 140, 130, 120, 110):
        for corpus in (ours, theirs):
            corpus.set_threshold(characters)
        least, before = rag(theirs, "run", "-q").cpu, cpu_of_children()
        subprocess.run(line, cwd=project.parent, env=there, check=True, capture_output=True)
        found.append((cpu_of_children() - before, least))
    found = found[1:]  # the first ones build everything
    print(
        *(f"{job:.1f} CPU s by Dagster, {least:.1f} by rag run" for job, least in found), sep="\n"
    )
    print(f"ratio of the medians: {median(j for j, _ in found) / median(r for _, r in found):.2f}")


def hundred(folder: Path) -> None:
    """Print the CPU seconds of ticks, and the bytes of the history, after cheap runs."""
    corpus = small(folder / "hundred", NAMES[0])
    write_project(corpus.file.parent, corpus.file)
    home, name = corpus.file.parent / "home", "first__bring_up_to_date"
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for number in range(HUNDRED + 1):
            os.utime(corpus.documents / "policy/travel.md", (number, number))
            assert execute(corpus.file, instance, dg.RunRequest(job_name=name))
            if number in (1, 10, 50, HUNDRED):
                size = sum(f.stat().st_size for f in (home / "history").rglob("*.db"))
                told = [f"{number} runs: {size / 1e6:.1f} MB of history; CPU s of a tick:"]
                for sensor in ("observed_inputs", "changed_documents", "stale_partitions"):
                    before = time.process_time()
                    ask(corpus.file, instance, sensor, one_run=True)
                    told.append(f"{sensor} {time.process_time() - before:.2f}")
                print(*told, flush=True)


def rest(folder: Path) -> None:
    """Print the CPU seconds of three daemons and their code servers at rest at the same time."""
    modes: dict[str, dict[str, bool]] = {
        "sensors on": {},
        "sensors off": {"on": False},
        "nothing defined": {"empty": True},
    }
    with ExitStack() as stack:
        daemons = []
        for number, mode in enumerate(modes.values()):
            corpus = small(folder / f"rest{number}" / NAMES[0], NAMES[0])
            if "empty" not in mode:
                rag(corpus, "run", "-q")
            daemons.append(stack.enter_context(daemon_of([corpus], fast=False, **mode)))
        time.sleep(90)
        before = [sum(daemon.cpu()) for daemon in daemons]
        time.sleep(REST_SECONDS)
        for name, daemon, then in zip(modes, daemons, before, strict=True):
            spent = sum(daemon.cpu()) - then
            print(f"at rest, {name}: {spent:.1f} CPU s in {REST_SECONDS} s", flush=True)


def main() -> None:
    """Print the costs of each event, and the other parts."""
    # As for users: without compiled files, every process compiles the project.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder, words = Path(sys.argv[1]).absolute(), sys.argv[2:]

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    shutil.rmtree(folder, ignore_errors=True)
    parts = [part for part in (ratio, hundred, rest) if wanted(part.__name__)]
    if not words or len(parts) < len(words):
        trial(folder, wanted)
    for part in parts:
        part(folder)


if __name__ == "__main__":
    main()
