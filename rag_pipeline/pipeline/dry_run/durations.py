"""Predict the duration of each planned step at the present speed and load of the machine.

A step takes a fixed time, and a time for each query or chunk. Both are counted in *rounds*. A round
is the time of a fixed piece of Python code. Each plan measures this time, so the numbers hold on
other machines and under load. Each run stores the ratio of its number of rounds to the usual
number. The next plan multiplies the usual number by this ratio.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_pipeline.calls.costs import estimate_tokens
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.pipeline.dry_run.plan import RERANKING, PlannedStep
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace

_FILE = "durations.json"
"""The store's file with the ratio of the last run's rounds to the usual rounds, by asset."""
START = "start"
"""The key of the time for importing modules and checking every step."""


class _Rounds(NamedTuple):
    fixed: float
    each: float = 0.0
    """Rounds for each chunk of a step that makes a table, or for each query of another step."""


_ROUNDS = 6
_OTHER = _Rounds(2.0)
_USUAL: Mapping[str, _Rounds] = {
    START: _Rounds(31.0),
    "queries": _Rounds(2.0),
    "contextualized_chunks": _Rounds(1.0, 0.004),
    "lexical_index": _Rounds(1.5),
    "vector_index": _Rounds(2.0, 0.013),
    "retrieval_run": _Rounds(1.5, 0.11),
    "answer_presence": _Rounds(0.9, 0.01),
    "answers": _Rounds(2.0, 0.7),
    "entity_scores": _Rounds(1.0, 0.04),
    "context_scores": _Rounds(0.4, 0.01),
    "leaderboard": _Rounds(7.0, 0.28),
    "release": _Rounds(4.0, 0.09),
}
"""Rounds of processor time in a first run of the sample corpus (71 queries, ten configurations)."""


class Pace(NamedTuple):
    """The wall-clock and processor time of one round in seconds."""

    clock: float
    cpu: float


def pace() -> Pace:
    """Measure the mean time of a round. The measurement takes 0.5 s on a machine without load."""
    clock, cpu = time.perf_counter(), time.thread_time()
    counts = Counter[int]()
    for number in range(_ROUNDS * 300_000):
        counts[number % 97] += len(str(number % 300_000))
    return Pace((time.perf_counter() - clock) / _ROUNDS, (time.thread_time() - cpu) / _ROUNDS)


def measure(
    workspace: Workspace, planned: Sequence[PlannedStep]
) -> tuple[list[PlannedStep], float]:
    """Return the plan with the expected seconds of each step that calls no remote model.

    Also return the expected seconds of a run outside its steps. Embedding a sample of texts
    measures the speed of each local model. The call cache keeps the vectors.
    """
    config = workspace.config
    speeds: dict[str, float] = {}
    for row in planned:
        if row.sample and (name := row.step.key(config).embedding) not in speeds:
            embed = workspace.embed(name)
            embed(row.sample[:1])  # opens the model
            started = time.perf_counter()
            embed(row.sample[1:])
            tokens = sum(map(estimate_tokens, row.sample[1:]))
            speeds[name] = (time.perf_counter() - started) / max(tokens, 1)
    corrections = workspace.store.read_json(_FILE) or {}
    queries, round_seconds = _queries(workspace), pace().clock
    made = []
    for row in planned:
        seconds: float | None = 0.0 if not row.runs else None
        key = None if row.step.asset == RERANKING else row.step.key(config)
        embeds = bool(row.calls) and row.step.row.table is not None
        speed = speeds.get(key.embedding) if key is not None and embeds else 0.0
        if row.runs and key is not None and speed is not None and not (row.model or row.asks):
            usual = _rounds(row.step, queries, row.chunks or 0)
            rounds = usual * corrections.get(row.step.asset, 1.0)
            seconds = row.tokens.input * speed + rounds * round_seconds
        made.append(replace(row, seconds=seconds))
    start = _USUAL.get(START, _OTHER).fixed * corrections.get(START, 1.0)
    return made, start * round_seconds


def keep_durations(
    workspace: Workspace, chunks: Mapping[Step, int], cpu_seconds: Mapping[Step, float]
) -> None:
    """Store the ratio of each asset's processor time to its usual time, for the next plan.

    `cpu_seconds` has the processor time of each step, and of `START` for the work outside of the
    steps. `chunks` counts the chunks that each step wrote.
    """
    cpu, queries = pace().cpu, _queries(workspace)
    usual, spent = defaultdict[str, float](float), defaultdict[str, float](float)
    for step, seconds in cpu_seconds.items():
        usual[step.asset] += _rounds(step, queries, chunks.get(step, 0))
        spent[step.asset] += seconds / cpu
    before = workspace.store.read_json(_FILE) or {}
    found = {asset: round(spent[asset] / usual[asset], 3) for asset in usual}
    workspace.store.write_json(_FILE, {**before, **found})


def _queries(workspace: Workspace) -> int:
    path = workspace.config.queries_path
    return len(read_queries(path)) if path else 0


def _rounds(step: Step, queries: int, chunks: int) -> float:
    usual = _USUAL.get(step.asset, _OTHER)
    makes_table = step.asset != START and step.row.table is not None
    return usual.fixed + usual.each * (chunks if makes_table else queries)
