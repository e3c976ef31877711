"""Damage files of a store at random: `rag doctor --full` must see it, `--repair` and a run heal it.

`python -m benchmarks.bench_integrity [TRIALS [SEED]]`: 200 by default, every kind of file in turn.
"""

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.store import tables
from rag_pipeline.workspace import Workspace

TRIALS = 200
DOCUMENTS = 12
ROUNDS = 4
QUERIES = ("fee of contract 0", "fee of contract 7 and the day that it is due on")
SKIPPED = ("exchange", "-shm", "-wal")
"""Empty files of SQLite, and locks."""

Damage = Literal["flip", "zero", "cut"]
Outcome = Literal["healed", "harmless", "silent", "broken"]


class Trial(NamedTuple):
    """The damage, the finding of `rag doctor --full`, and the end."""

    kind: str
    path: str
    damage: Damage
    said: tuple[str, ...]
    outcome: Outcome


def build(folder: Path) -> Workspace:
    """Build a store with scalar indexes and two releases."""
    tables.SORTED_ROWS = 4
    workspace = Workspace(load_config(write_cycling(folder, DOCUMENTS)))
    reindex(workspace)
    edit(folder, 0, 7)
    reindex(workspace)
    return workspace


def kind_of(path: str) -> str:
    """Return the kind of a file: its folders, without names of tables and builds."""
    parts = path.split("/")
    if parts[0] == "tables":
        return "/".join(["tables", parts[1].split(".")[0], *parts[2:-1]])
    return "/".join([*parts[:1], parts[-1]]) if len(parts) > 1 else path


def damaged(file: Path, damage: Damage, chance: random.Random) -> None:
    """Flip a bit of a file, zero a stretch of it, or cut its end off."""
    content = bytearray(file.read_bytes())
    before = bytes(content)
    while bytes(content) == before:
        place = chance.randrange(len(content))
        if damage == "flip":
            content[place] ^= 1 << chance.randrange(8)
        elif damage == "zero":
            stretch = content[place : place + chance.randrange(1, 64)]
            content[place : place + len(stretch)] = bytes(len(stretch))
        else:
            del content[place:]
    file.write_bytes(bytes(content))


def contents(workspace: Workspace) -> dict[str, Any]:
    """Return all that can be read of a store, and what searches and leaderboard say."""
    corpus = Corpus(workspace.config)
    found: dict[str, Any] = {
        name: sorted(map(repr, workspace.store.table(name, None).open().to_arrow().to_pylist()))
        for name in workspace.store.tables()
        if workspace.store.table(name, None).count()
    }
    for query in QUERIES:
        found[query] = [
            (c.chunk_id, c.text, round(c.score, 6)) for c in corpus.search(query, k=DOCUMENTS)
        ]
    board = corpus.leaderboard()
    found["metrics"] = [row["metrics"] for row in board["configurations"]]
    found["texts"] = [corpus.document(i).text for i in corpus.document_ids()]
    return found


def trials(whole: Path, folder: Path, count: int, seed: int = 5) -> Iterator[Trial]:
    """Damage one file of a copy of what `build` made, repeatedly, alternating between kinds."""
    expected = contents(Workspace(load_config(whole / "cycling.yaml")))
    root = whole / "store"
    kinds: dict[str, list[str]] = {}
    for file in sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size):
        path = file.relative_to(root).as_posix()
        if not path.endswith(SKIPPED):
            kinds.setdefault(kind_of(path.removeprefix("cycling/")), []).append(path)
    chance = random.Random(seed)
    order = sorted(kinds)
    chance.shuffle(order)
    for number in range(count):
        kind = order[number % len(order)]
        path = chance.choice(kinds[kind])
        damage = chance.choice(get_args(Damage))
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        damaged(copy / "store" / path, damage, chance)
        workspace = Workspace(load_config(copy / "cycling.yaml"))
        said = tuple(f"{f.place}: {f.problem}" for f in inspect(workspace, full=True))
        outcome: Outcome
        if said:
            outcome = "healed" if _healed(workspace, expected) else "broken"
        else:
            outcome = "harmless" if _same(workspace, expected) else "silent"
        yield Trial(kind, path, damage, said, outcome)


def _healed(workspace: Workspace, expected: dict[str, Any]) -> bool:
    for _ in range(ROUNDS):
        findings = inspect(workspace, full=True)
        if not findings:
            break
        for finding in findings:
            if finding.mend is None:
                return False
            finding.mend()
    else:
        return False
    workspace = Workspace(workspace.config)
    reindex(workspace)
    return _same(workspace, expected) and not inspect(workspace, full=True)


def _same(workspace: Workspace, expected: dict[str, Any]) -> bool:
    try:
        return contents(workspace) == expected
    except RagPipelineError:
        return False


def report(made: Sequence[Trial]) -> None:
    """Print how trials ended, and each that did not end well."""
    counts = json.dumps(Counter(trial.outcome for trial in made))
    print(f"{len(made)} damages of {len({t.kind for t in made})} kinds of files: {counts}")
    for trial in made:
        if trial.outcome in ("silent", "broken"):
            said = "; ".join(trial.said)[:300] or "nothing"
            print(f"{trial.outcome}: {trial.damage} {trial.path}: said {said}")


def main() -> None:
    """Run the trials; fail on a damage that is not seen or not healed."""
    count, seed = [*map(int, sys.argv[1:]), *(TRIALS, 5)[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole")
        build(whole)
        made = list(trials(whole, Path(folder), count, seed))
    report(made)
    if any(trial.outcome in ("silent", "broken") for trial in made):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
