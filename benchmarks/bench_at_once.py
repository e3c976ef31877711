"""Rounds of ten simultaneous runs of one corpus, most of them killed: `[ROUNDS]`, by default 20.

The runs do not take the lease of `rag run`. Each is killed at a random place, or not at all: after
its n-th batch, in the build or the publishing of BM25, in the vector table's write, in the release.
An earlier run is killed in its batches, and a document is added after it, so every kill comes after
the first batch. One more run must leave an undisturbed build. No text may be embedded twice, except
for the batch in flight at a kill.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rag_pipeline.config import load_config
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import many_documents, write_documents, write_only
from rag_pipeline_tests.testing.killed_runs import (
    PLACES,
    Log,
    Undisturbed,
    built_alone,
    differences,
    start,
    start_together,
)

ROUNDS, RUNS, DOCUMENTS = 20, 10, 14
_PLACES = (*(place for place, _ in PLACES), "")


def trial(folder: Path, chance: random.Random, undisturbed: Undisturbed) -> tuple[Log, list[str]]:
    """Run ten runs together on a new corpus; return their log and the faults."""
    documents = many_documents(DOCUMENTS, "build 1")
    added = documents.popitem()
    folder.mkdir()
    file, log = write_only(folder, documents), folder / "calls.log"
    faults = []
    if start(file, log, "batch", chance.randint(1, 3)).wait() != -signal.SIGKILL:
        faults.append("the first run was not killed")
    write_documents(folder / "documents", dict([added]))
    chosen = [chance.choice(_PLACES) for _ in range(RUNS)]
    # The runs share the work, so few of them reach a place twice.
    times = [chance.randint(1, 3) if place == "batch" else 1 for place in chosen]
    runs = start_together(file, log, list(zip(chosen, times, strict=True)))
    codes = Counter(run.wait() for run in runs)
    if start(file, log).wait():
        faults.append("the last run failed")
    if set(codes) - {0, -signal.SIGKILL}:
        faults.append(f"runs ended with {dict(codes)}")
    seen = Log.read(log)
    faults += [f"killed before the first batch: {place}" for place, n in seen.kills if not n]
    faults += differences(file, seen, undisturbed)
    faults += [f"doctor: {f.place}: {f.problem}" for f in inspect(Workspace(load_config(file)))]
    if faults:
        sys.stdout.write(log.with_suffix(".err").read_text()[-4000:])
    return seen, faults


def main() -> None:
    """Run the rounds; exit with 1 if a build differs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    kills: Counter[str] = Counter()
    failed = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        alone = Path(temporary) / "alone"
        alone.mkdir()
        undisturbed = built_alone(write_only(alone, many_documents(DOCUMENTS, "build 1")))
        for number in range(rounds):
            seen, faults = trial(Path(temporary) / str(number), random.Random(number), undisturbed)
            kills.update(place for place, _ in seen.kills)
            failed += bool(faults)
            again = sum(map(len, seen.batches)) - len(seen.texts)
            print(
                f"round {number}: {len(seen.kills)} kills, {len(seen.texts)} texts, "
                f"{again} sent again",
                *faults,
                flush=True,
                sep="; ",
            )
    print(f"{rounds} rounds of {RUNS} runs, {time.monotonic() - started:.0f} s", end="")
    print(f" (load {os.getloadavg()[0]:.1f}): {sum(kills.values())} kills {dict(kills)}")
    print(f"rounds that differ from an undisturbed build: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
