"""Calls a second over a bare asyncio loop with the same client, memory, faults and kills.

python -m benchmarks.bench_calls [--calls 3200] [--many 20000]
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai

from benchmarks.processes import kibibytes
from benchmarks.shared import options
from rag_pipeline.calls import CallCache, Database
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.faulty_calls import run_killed, run_with_faults

CONCURRENCY = 64
LATENCY_MS = 200
PROMPTS = 2000
"""Number of prompts whose replies fail, and of those of a run that is killed."""


def bare(url: str, count: int) -> float:
    """Return the seconds of as many calls with the SDK alone, as many at a time."""

    async def run() -> None:
        client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        numbers = iter(range(count))

        async def worker() -> None:
            for n in numbers:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": f"bare {n}"}]
                )

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        await client.close()

    started = time.perf_counter()
    asyncio.run(run())
    return time.perf_counter() - started


def ours(url: str, count: int, folder: Path) -> float:
    """Return the seconds of `ask`, which also keys, claims, paces and stores."""
    settings = ChatModel(provider="openai", model="m", base_url=url, max_concurrency=CONCURRENCY)
    started = time.perf_counter()
    replies = ask([Prompt(f"{folder.name} {n}") for n in range(count)], settings,
                  CallCache(Database(folder / "calls.sqlite")))  # fmt: skip
    seconds = time.perf_counter() - started
    assert all(isinstance(r, Reply) for r in replies)
    return seconds


def main() -> None:
    arguments = options(__doc__, calls=3200, many=20_000)
    command = [sys.executable, "-m", "rag_pipeline_tests.testing.model_server", str(LATENCY_MS)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder, calls = Path(name), arguments.calls // 4
            bare(url, CONCURRENCY * 2)  # imports and connections
            # In turns, so that both have the same neighbours on the machine.
            turns = [(bare(url, calls), ours(url, calls, make(folder, n))) for n in range(4)]
            alone, through = (4 * calls / sum(t) for t in zip(*turns, strict=True))
            at = f"concurrency {CONCURRENCY}, {LATENCY_MS} ms"
            print(f"calls a second at {at}, ideal {CONCURRENCY * 1000 / LATENCY_MS:.0f}")
            print(f"  bare client   {alone:8.1f}")
            print(f"  through ask   {through:8.1f}")
            print(f"  ratio         {through / alone:8.2f}   (at least 0.90)")
            if arguments.many:
                before = kibibytes("self", "VmHWM") / 1024
                ours(url, arguments.many, make(folder, 4))
                grown = kibibytes("self", "VmHWM") / 1024 - before
                print(f"peak memory before, after {arguments.many:,} calls of one `ask`")
                print(f"  before        {before:8.1f} MiB")
                print(f"  grown         {grown:8.1f} MiB")
                print(f"  per call      {grown * 1024 / arguments.many:8.2f} KiB")
    finally:
        server.kill()
        server.wait()
    with tempfile.TemporaryDirectory() as name:
        faults = run_with_faults(make(Path(name), 0), PROMPTS).total()
        print(f"{PROMPTS:,} prompts, {faults} faults: in order, each paid once")
        twice = run_killed(make(Path(name), 1) / "calls.sqlite", PROMPTS, PROMPTS // 2)
        print(f"killed half-way at concurrency 32: {twice} calls twice   (at most 32)")


def make(folder: Path, n: int) -> Path:
    made = folder / str(n)
    made.mkdir()
    return made


if __name__ == "__main__":
    main()
