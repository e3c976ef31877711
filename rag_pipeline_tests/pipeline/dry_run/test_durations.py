"""The expected time of a run, by the pace of the machine and by what earlier runs took."""

import pytest

from rag_pipeline.models.providers.e5 import E5Embedding
from rag_pipeline.pipeline.dry_run import START, PlannedStep, durations, keep_durations, measure
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace

BOARD, CONTEXTS = Step("leaderboard"), Step("contextualized_chunks", "recursive_150.none")


def test_a_plan_is_as_slow_as_the_machine_without_others_and_as_the_last_run(
    workspace, monkeypatch
):
    # A round takes 4 s on the clock now: the machine is busy. It takes 2 s of the processor.
    monkeypatch.setattr(durations, "pace", lambda: durations.Pace(clock=4.0, cpu=2.0))
    planned = [
        PlannedStep(BOARD, runs=True),
        PlannedStep(CONTEXTS, runs=True, chunks=250),
        PlannedStep(Step("release"), runs=False),
        PlannedStep(Step("answers", "plain"), runs=True, asks=3, model="of a vendor"),
    ]
    found, start, load = measure(workspace, planned)
    assert load == 2.0
    # 3 rounds and 0.08 for each of 4 queries; 0.8 rounds and 0.001 for each of 250 chunks.
    expected = [2 * (3 + 4 * 0.08), 2 * (0.8 + 250 * 0.001), 0.0]
    assert [row.seconds for row in found[:3]] == pytest.approx(expected)
    assert found[3].seconds is None, "nobody knows how fast a vendor is"
    assert start == pytest.approx(2 * 16)

    with_more, *_ = measure(workspace, planned, more_queries=100)
    assert with_more[0].seconds == pytest.approx(2 * (3 + 104 * 0.08))
    config, e5 = workspace.config, {"minilm": E5Embedding(provider="e5")}
    by_e5 = Workspace(config.model_copy(update={"embeddings": e5}))
    (answers,), *_ = measure(by_e5, [PlannedStep(Step("answers", "plain"), runs=True)])
    assert answers.seconds == pytest.approx(2 * (2 + 4 * 2.4))

    # The run took three times as long for the leaderboard, and half of the time for the start.
    keep_durations(workspace, {}, {BOARD: 2 * 3 * (3 + 4 * 0.08), Step(START): 16})
    again, start, _ = measure(workspace, planned)
    expected[0] *= 3
    assert [row.seconds for row in again[:3]] == pytest.approx(expected, rel=1e-3)
    assert start == pytest.approx(16)


def test_a_round_takes_the_same_work_each_time():
    first, second = durations.pace(), durations.pace()
    assert 0.3 < first.cpu / second.cpu < 3
    assert first.clock > 0.9 * first.cpu
