"""Small losses of many releases against a reference release."""

import numpy as np
import pytest
from scipy.stats import norm

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.comparison import Reference
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.release.drift import (
    allowed_error,
    compare_with_reference,
    new_reference,
    reference_id,
)
from rag_pipeline.release.gate import decide, keep_decision, keep_scores, kept_scores
from rag_pipeline.release.publishing import remove
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.score_files import write_questions, write_scores

AP = "AnswerPresence@5"
N = 400


def corpus(folder, **gate):
    workspace = Workspace(load_config(write_corpus(folder, gate={"metrics": [AP], **gate})))
    write_questions(workspace, {f"q{i}": f"question {i}" for i in range(N)})
    return workspace


def release_number(number):
    return f"release-{number:06d}"


def try_release(workspace, number, lost, worst=0.0):
    """Offer a build that loses the first `lost` questions, as release `number`; return whether."""
    write_scores(workspace, "default", {AP: [worst] * lost + [1.0] * (N - lost)})
    RUN.write(workspace, RUN.schema.empty_table(), {"digest": f"{number} {lost}"}, "default")
    served = None
    if number > 1:
        before = release_number(number - 1)
        served = Reference(before, "default", kept_scores(workspace, before))
    decision = decide(workspace, "default", served)
    if decision.allowed:
        keep_scores(workspace, release_number(number), "default")
        workspace.store.write_json(f"releases/{release_number(number)}.json", {})
    keep_decision(workspace, decision, release_number(number) if decision.allowed else None)
    return decision


@pytest.mark.parametrize("worst", [0.0, None])
def test_small_losses_of_each_night_do_not_add_up(tmp_path, worst):
    """Each build loses 3 of 400 questions more (0.75 points) than the one before.

    k losses alone have a mean of k / 400 and an error of about √k / 400, so t is about √k. The
    fifth comparison spends 0.15 (5^-0.1 - 6^-0.1) = 0.0023 (t = 2.8): 15 losses are more, and
    3.75 points.
    """
    workspace = corpus(tmp_path)
    number = 1
    for night in range(12):
        decision = try_release(workspace, number, 3 * night, worst)
        if not decision.allowed:
            break
        number += 1
    else:
        pytest.fail("every night was released")
    assert 2 <= night <= 5
    assert f"reference {release_number(1)}: refused: worse" in decision.reasons[-1]
    assert decision.passed
    # A build that loses less than is shown, but more than the reference, is refused from now on.
    lower = try_release(workspace, number, 1)
    assert not lower.allowed
    assert "refused: lower, and an earlier build was worse" in lower.reasons[-1]
    first = Reference(release_number(1), "default", kept_scores(workspace, release_number(1)))
    assert decide(workspace, "default", first).allowed, "after a rollback nothing has drifted"
    assert try_release(workspace, number, 0).allowed


def test_the_reference_keeps_its_scores_until_a_better_release_replaces_it(tmp_path):
    workspace = corpus(tmp_path)
    for number, lost in ((1, 40), (2, 40)):
        assert try_release(workspace, number, lost).allowed
    assert reference_id(workspace) == release_number(1)
    remove(workspace, release_number(1))  # as retention does
    assert len(kept_scores(workspace, release_number(1))[AP]) == N
    assert try_release(workspace, 3, 0).drift.better
    assert reference_id(workspace) == release_number(3)
    assert kept_scores(workspace, release_number(1)) == {}


def test_a_pinned_reference_decides_and_needs_scores(tmp_path):
    workspace = corpus(tmp_path)
    assert try_release(workspace, 1, 0).allowed
    for number in (2, 3):
        keep_scores(workspace, release_number(number), "default")
    pinned = corpus(tmp_path, reference=release_number(1))
    write_scores(pinned, "default", {AP: [0.0] * 20 + [1.0] * (N - 20)})
    same = {AP: {f"q{i}": float(i >= 20) for i in range(N)}}
    decision = decide(pinned, "default", Reference(release_number(3), "default", same))
    assert not decision.allowed and decision.passed
    assert decision.drift.reference.release_id == release_number(1)
    unknown = corpus(tmp_path, reference=release_number(9))
    with pytest.raises(ConfigError, match=r"gate\.reference: the store has no scores of release-0"):
        decide(unknown, "default", Reference(release_number(3), "default", same))


@pytest.mark.parametrize(("changed", "reference"), [(200, 1), (201, 2), (398, 2), (N, 2)])
def test_a_reference_without_half_of_the_questions_is_the_served_release(
    tmp_path, changed, reference
):
    """The served release has scores on the present questions; the texts of others changed."""
    workspace = corpus(tmp_path)
    assert try_release(workspace, 1, 0).allowed
    asked = {f"q{i}": "another text" if i < changed else f"question {i}" for i in range(N)}
    write_questions(workspace, asked)
    write_scores(workspace, "default", {AP: [1.0] * N})
    served = Reference(release_number(2), "default", {AP: {f"q{i}": 1.0 for i in range(N)}})
    found = decide(workspace, "default", served).drift.reference.release_id
    assert found == release_number(reference)
    pinned = corpus(tmp_path, reference=release_number(1))
    write_questions(pinned, asked)
    if changed < 398:
        assert decide(pinned, "default", served).drift.reference.release_id == release_number(1)
        return
    with pytest.raises(ConfigError, match=f"{N - changed or 'no'} scores of release-000001 for"):
        decide(pinned, "default", served)


def test_a_lost_record_of_refused_builds_does_not_hold_the_comparisons_at_the_first(tmp_path):
    """The reference began at comparison 22. Without the record, the next ones are 2 and 3."""
    workspace = corpus(tmp_path)
    assert try_release(workspace, 1, 0).allowed
    workspace.store.write_json("gate/refused.json", {"refused": [f"b{i}" for i in range(20)]})
    assert try_release(corpus(tmp_path, metrics=[]), 2, 0).allowed
    assert workspace.store.read_json("gate/reference.json")["first"] == 22
    workspace.store.remove_file("gate/refused.json")
    for number in (3, 4):
        assert try_release(workspace, number, 0).drift.reference.first == 2


def test_a_reference_older_than_a_year_is_the_served_release(tmp_path):
    workspace = corpus(tmp_path)
    for number, lost in ((1, 0), (2, 2)):
        assert try_release(workspace, number, lost).allowed
    record = workspace.store.read_json("gate/reference.json")
    old = {**record, "since": "2020-01-01T00:00:00+00:00"}
    workspace.store.write_json("gate/reference.json", old)
    decision = try_release(workspace, 3, 2)
    assert decision.drift.reference.release_id == release_number(2)


def test_a_release_that_a_person_forced_or_rolled_back_changes_the_reference(tmp_path):
    workspace = corpus(tmp_path)
    assert try_release(workspace, 1, 0).allowed
    forced = corpus(tmp_path, metrics=[])
    assert try_release(forced, 2, 80).allowed
    assert reference_id(workspace) == release_number(2)
    assert try_release(workspace, 3, 0).drift.better
    before = Reference(release_number(2), "default", kept_scores(workspace, release_number(2)))
    after_rollback = decide(workspace, "default", before)
    assert after_rollback.drift.reference.release_id == release_number(2)


def test_the_metrics_share_the_error_of_the_reference():
    """6 of 400 lost: t = √(0.015 * 399 / 0.985) = 2.47, p = 0.0071. The first look has 0.0100."""
    before = {f"q{i}": 1.0 for i in range(N)}
    own = {q: float(i >= 6) for i, q in enumerate(before)}
    one, other = {AP: own, "nDCG@10": before}, {AP: before, "nDCG@10": before}
    for metrics, shown in (([AP], True), ([AP, "nDCG@10"], False)):
        drift = compare_with_reference(new_reference("r", 1), one, other, metrics, {}, 1, 0.01)
        assert drift.shown == shown


@pytest.mark.parametrize("metrics", [1, 3])
def test_all_comparisons_with_a_reference_have_an_error_of_5_percent(metrics):
    """Draw the z statistics of 1,000 equal builds. All contain the same value of the reference."""
    rng = np.random.default_rng(metrics)
    bounds = norm.isf([allowed_error(look, metrics) for look in range(1, 1001)])
    refused = 0
    for _ in range(4000):
        builds = rng.standard_normal((metrics, 1000), dtype=np.float32)
        losses = (rng.standard_normal((metrics, 1)) - builds) / np.sqrt(2)
        refused += bool((losses > bounds).any())
    assert 0.025 < refused / 4000 <= 0.05


def test_equal_candidates_of_100_nights_are_refused_in_5_percent_of_histories():
    """Questions of documents that suit a system better or worse; all are right with 0.8."""
    rng = np.random.default_rng(2)
    groups = {f"q{i}": f"d{i // 4}" for i in range(80)}

    def drawn():
        chance = np.clip(rng.normal(0.8, 0.1, 20), 0, 1).repeat(4)
        return {"m": {f"q{i}": float(v) for i, v in enumerate(rng.random(80) < chance)}}

    refused = 0
    for _ in range(40):
        first, reference = drawn(), new_reference("release-000001", 1)
        refused += any(
            compare_with_reference(reference, drawn(), first, ["m"], groups, night, 0.0).shown
            for night in range(1, 101)
        )
    assert refused <= 4
