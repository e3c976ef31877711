"""Peak memory of `rag run` on LegalBench-RAG, on ten times its documents, and of `rag serve`.

    python -m benchmarks.bench_memory [--times N] [--data FOLDER] [--work FOLDER]

Each command is a process of its own. What counts is the most that it and all its children hold
resident at one time, by the kernel: files that they map and pages that they share are counted, the
latter once for each. Every index is built from nothing, the questions are the set's. The documents
beyond its own are copies under other names, each with a last line of its own, so that most texts
are embedded once.
"""

import sys
from pathlib import Path

from benchmarks.bench_datasets import SETS, prepared
from benchmarks.bench_serving import Load, await_answer
from benchmarks.processes import run_watched, watched
from benchmarks.shared import working
from rag_pipeline.config import load_config
from rag_pipeline.loading.queries import read_queries
from rag_pipeline_tests.testing.servers import free_port

SET = "legalbench-rag"
RUN_MIB, SERVER_MIB, GROWTH = 900, 600, 1.3


def serve(file: Path, questions: list[str], seconds: float, clients: int) -> int:
    """Return the peak of `rag serve` in MiB while clients ask it."""
    port = free_port()
    log = file.with_suffix(".serve.log")
    with watched("serve", str(file), "--port", str(port), log=log) as (process, watch):
        await_answer(process, port)
        load = Load(port, "/v1/ask", questions)
        load.run(clients, seconds, process.pid, "ask")
    if set(load.statuses) - {"200", "429"} or not load.answered:
        raise SystemExit(f"{len(load.answered)} answers: {dict(load.statuses)}")
    return watch.mib


def multiplied(documents: Path, times: int) -> None:
    """Add copies of documents under other names, each with a last line of its own."""
    for file in sorted(documents.rglob("*.txt")):
        text = file.read_text()
        for number in range(1, times):
            copy = file.with_name(f"{file.stem}-{number}{file.suffix}")
            copy.write_text(f"{text}\n\nCopy {number} of {file.stem}\n")


def main() -> None:
    with working(__doc__, times=10, seconds=20.0, clients=8) as arguments:
        data, work = arguments.data / SETS[SET].path, arguments.work
        small = prepared(SET, data, work / "small")
        once = run_watched(small)
        print(f"rag run: {once} MiB (must be at most {RUN_MIB})", flush=True)
        again = run_watched(small)
        print(f"rag run, nothing changed: {again} MiB", flush=True)
        questions = [q.query for q in read_queries(load_config(small).queries_path)]
        served = serve(small, questions, arguments.seconds, arguments.clients)
        print(f"rag serve: {served} MiB (must be at most {SERVER_MIB})", flush=True)
        faults = [once > RUN_MIB, served > SERVER_MIB]
        if arguments.times > 1:
            large = prepared(SET, data, work / "large")
            multiplied(large.parent / "documents", arguments.times)
            many = run_watched(large)
            print(f"rag run, {arguments.times} times the documents: {many} MiB, ", end="")
            print(f"{many / once:.2f} times as much (must be at most {GROWTH})")
            faults.append(many > GROWTH * once)
    sys.exit(any(faults))


if __name__ == "__main__":
    main()
