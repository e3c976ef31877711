"""One changed document in a large corpus, through the whole of `rag run`, and searches meanwhile.

    python -m benchmarks.bench_changes [--chunks N] [--folder DIR]

The corpus and its random vectors are those of `bench_scale`. `rag run` embeds the changed document,
checks, searches for 200 queries, evaluates, passes the gate and releases. The model's vectors are
replaced by noise. Each run is a process: wall time, processor time and peak memory. Then a loop
searches while the release switches between two releases, ten times. The pause is the longest search
with switches minus the longest one without. `--folder` keeps the build.
"""

import json
import os
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.bench_scale import BUILDING, CONFIGURATION, QUERIES, STEPS, Scale
from benchmarks.processes import cpu_of_children, run_watched
from benchmarks.scale_corpus import DIMENSION
from benchmarks.shared import options
from rag_pipeline import Corpus
from rag_pipeline.config.models import InputType, Tokens
from rag_pipeline.datamodels import Vectors
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline.release import publishing

SECONDS, SWITCHES = 30, 10
RUN_S, RUN_MIB, UNCHANGED_S, PAUSE_MS = 60, 3072, 8, 100


def build(scale: Scale) -> None:
    """Build all that comes before the evaluation, and write the questions."""
    for name in BUILDING:
        STEPS[name](scale)
    chunks = scale.workspace.chunks(scale.chosen.chunking).dataset()
    rows = chunks.to_table(["document_id", "start", "end", "text"])
    lines = []
    for number, at in enumerate(np.linspace(0, len(rows) - 1, QUERIES).astype(int)):
        row = rows.slice(at, 1).to_pylist()[0]
        span = {key: row[key] for key in ("document_id", "start", "end")}
        zero = np.zeros(DIMENSION, np.float32)
        query = scale.corpus.asked(row["text"], row["document_id"], zero, number).text
        lines.append(json.dumps({"query_id": f"q{number}", "query": query, "gold_spans": [span]}))
    (scale.folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
    text = scale.file.read_text().replace("serve: best", "serve: default")
    scale.file.write_text(
        text.replace("  documents:\n", "  queries: queries.jsonl\n  documents:\n", 1)
    )


def draw() -> None:
    """Let the model work, but return noise for documents: among drawn ones, they would win."""
    real = MiniLMTokens.embed_tokens

    def embed_tokens(
        self: MiniLMTokens, texts: Sequence[str], input_type: InputType = "document"
    ) -> tuple[Vectors, list[Tokens]]:
        vectors, tokens = real(self, texts, input_type)
        if input_type == "document":
            chance = np.random.default_rng(zlib.crc32(texts[0].encode()))
            vectors = _noise(chance, len(texts))
            tokens = [Tokens(one.ids, _noise(chance, len(one.ids))) for one in tokens]
        return vectors, tokens

    MiniLMTokens.embed_tokens = embed_tokens  # type: ignore[method-assign]


def _noise(chance: np.random.Generator, rows: int) -> Vectors:
    drawn = chance.standard_normal((rows, DIMENSION), np.float32)
    unit: Vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def run(scale: Scale, what: str) -> tuple[float, int]:
    """Run `rag run`; print and return its seconds and MiB."""
    started, used = time.monotonic(), cpu_of_children()
    before = "from benchmarks.bench_changes import draw; draw()\n"
    mib = run_watched(scale.file, "--configuration", CONFIGURATION, before=before)
    seconds, cpu = time.monotonic() - started, cpu_of_children() - used
    print(f"{what}: {seconds:.1f} s, {cpu:.1f} CPU s, {mib} MiB", end="")
    print(f" (load {os.getloadavg()[0]:.1f})", flush=True)
    return seconds, mib


def forget(folder: Path) -> None:
    """Drop a folder's files from the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def searched(corpus: Corpus, queries: list[str], seconds: float) -> list[float]:
    """Search for some seconds; return the milliseconds of each search."""
    until, took = time.monotonic() + seconds, []
    while time.monotonic() < until:
        started = time.perf_counter()
        corpus.search(queries[len(took) % len(queries)])
        took.append(1000 * (time.perf_counter() - started))
    return took


def pauses(scale: Scale, seconds: float = SECONDS) -> float:
    """Print how long searches take, with and without switches.

    Return by how much the longest is longer with them: on a busy machine any search may take long.
    """
    corpus = Corpus.load(scale.file)
    lines = (scale.folder / "queries.jsonl").read_text().splitlines()
    queries = [json.loads(line)["query"] for line in lines]
    second, first = (r.release_id for r in corpus.releases()[:2])
    searched(corpus, queries, seconds / 3)
    alone = searched(corpus, queries, seconds)
    seen: set[str] = set()

    def switch() -> None:
        for number in range(SWITCHES):
            publishing.serve(corpus.workspace, (first, second)[number % 2])
            time.sleep(seconds / SWITCHES)
            seen.add(corpus.searched().release_id)

    switching = threading.Thread(target=switch)
    switching.start()
    meanwhile = searched(corpus, queries, seconds)
    switching.join()
    for name, took in (("alone", alone), (f"{SWITCHES} switches", meanwhile)):
        p50, p99 = np.percentile(took, [50, 99])
        print(f"search, {name}: p50 {p50:.0f} ms, p99 {p99:.0f}, longest {max(took):.0f}", end="")
        print(f", n {len(took)} (load {os.getloadavg()[0]:.1f})")
    if seen != {first, second}:
        raise SystemExit(f"searched {sorted(seen)}, not both releases")
    pause = max(max(meanwhile) - max(alone), 0.0)
    print(f"longest pause by a switch: {pause:.0f} ms")
    return pause


def main() -> None:
    given = options(__doc__, chunks=100_000, folder=Path)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / str(given.chunks)
        folder.mkdir(parents=True, exist_ok=True)
        scale = Scale(folder, given.chunks)
        if not (folder / "queries.jsonl").exists():
            build(scale)
            run(scale, "first run (besides the indexes)")
        scale.edit()
        seconds, mib = run(scale, "one changed document")
        forget(folder)
        idle, _ = run(scale, "nothing changed, nothing in the page cache")
        longest = pauses(scale)
    faults = [seconds > RUN_S, mib > RUN_MIB, idle > UNCHANGED_S, longest > PAUSE_MS]
    sys.exit(any(faults))


if __name__ == "__main__":
    main()
