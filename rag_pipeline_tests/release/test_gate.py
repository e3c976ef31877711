import re

import numpy as np
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import Gate, load_config
from rag_pipeline.datamodels import Query
from rag_pipeline.errors import CheckFailedError, ConfigError
from rag_pipeline.evaluation.comparison import Reference
from rag_pipeline.evaluation.queries import queries_digest, save_queries
from rag_pipeline.evaluation.results import ENTITY_SCORES, LABELS, RUN
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.release.candidate import comparable, gate_decision, obstacles, served_reference
from rag_pipeline.release.gate import (
    Decision,
    compare_scores,
    comparison_number,
    decide,
    keep_decision,
    keep_scores,
    kept_scores,
)
from rag_pipeline.release.margins import spent
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import corpora
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import question, rule, write_corpus, write_file
from rag_pipeline_tests.testing.score_files import write_questions, write_scores

AP, NDCG = "AnswerPresence@5", "nDCG@10"


def served(**metrics):
    """Return a release with these values on q0, q1, …."""
    scores = {m: {f"q{i}": v for i, v in enumerate(values)} for m, values in metrics.items()}
    return Reference("release-000001", "plain", scores)


def test_a_candidate_that_is_significantly_worse_is_refused(workspace):
    """9 of 9 lost: p = 2 / 2**9, doubled for two metrics. The first comparison may spend 0.025.

    The other metric is equal: one more pair that differs by 1 makes an interval of 2.306 / 9. The
    guard spends 10 %, so t is 1.397 + 1.397 for 90 % power. The variance x (1 - x) of a loss x
    makes x = t² / (9 + t²). One of 0.04 takes 2.563² * 0.96 / 0.04 = 158 questions.
    """
    write_scores(workspace, "default", {AP: [0.0] * 9, NDCG: [0.5] * 9})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 9, NDCG: [0.5] * 9}))
    assert not decision.allowed
    assert decision.metrics[AP].comparison.p_holm == pytest.approx(4 / 512)
    assert decision.reasons == (
        "AnswerPresence@5: refused: WORSE, 97.5 % sure on 9 questions "
        "(1.0000 -> 0.0000 [-1.0000, -0.7438])",
        "nDCG@10: allowed: no clear loss on 9 questions, but a loss of more than 0.02 is possible; "
        "these questions show a loss of 0.46 in 9 of 10 cases; about 150 more questions would show "
        "a loss of 0.04 (0.5000 -> 0.5000 [-0.2562, +0.2562])",
        "CriticalRecall: not compared, because the candidate or the release has no value",
    )


def test_a_loss_by_chance_is_allowed(workspace):
    """2 of 9 lost, none won: half of the 1 of 2**2 cases in which an equal candidate does so."""
    write_scores(workspace, "default", {AP: [0.0] * 2 + [1.0] * 7})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 9}))
    assert decision.allowed
    assert decision.metrics[AP].outcome == "undecided"
    assert decision.metrics[AP].loss == pytest.approx(1 / 8)


def test_an_unlikely_loss_is_refused(workspace):
    """3 of 9 lost, none won: p = 1/2 * 1/2**3 is not significant, but below the guard."""
    write_scores(workspace, "default", {AP: [0.0] * 3 + [1.0] * 6})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 9}))
    assert not decision.allowed
    assert decision.metrics[AP].outcome == "looks worse"
    said = "looks worse by 0.3333 on 9 questions (so would 6.2 % of equally good candidates)"
    assert said in decision.reasons[0]


def test_a_loss_within_the_margin_is_accepted(workspace):
    """1 of 400 lost: mean -0.0025. A test shows 0.0184, but the guard only 0.02 + 0.0184 / 2."""
    write_scores(workspace, "default", {AP: [0.0] + [1.0] * 399})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 400}))
    assert decision.metrics[AP].outcome == "as good"
    sure = "not worse by more than 0.02, 97.5 % sure on 400 questions; these questions show a loss"
    assert f"{sure} of 0.029 in 9 of 10 cases" in decision.reasons[0]


def test_missing_scores_count_against_the_candidate(workspace):
    """The 25 hard queries, or all 50, lack a score that the release has."""
    half: list[float | None] = [None] * 25 + [1.0] * 25
    for values in (half, [None] * 50):
        write_scores(workspace, "default", {AP: values})
        decision = decide(workspace, "default", served(**{AP: [1.0] * 50}))
        assert not decision.allowed
        lost = sum(value is None for value in values)
        assert f"the candidate lacks {lost} of the release's 50 values" in decision.reasons[0]
    write_scores(workspace, "default", {AP: [1.0] * 50})
    decision = decide(
        workspace, "default", served(**{AP: [1.0] * 50, "CriticalRecall": [1.0] * 50})
    )
    assert decision.metrics["CriticalRecall"].outcome == "too many missing"


def test_a_missing_value_counts_as_the_worst(tmp_path):
    """4 of 50 lost, none won: an equal candidate does so in half of 1 of 2**4 cases."""
    file = write_corpus(tmp_path, gate={"metrics": [AP, "RankingPenalty", "MissingItems"]})
    workspace = Workspace(load_config(file))
    few: list[float | None] = [None] * 4
    own = {AP: [*few, *[1.0] * 46], "RankingPenalty": [*few, *[0.0] * 46]}
    write_scores(workspace, "default", {**own, "MissingItems": [*few, *[0.0] * 45, 3.0]})
    equal = [0.0] * 49 + [3.0]
    decision = decide(
        workspace,
        "default",
        served(**{AP: [1.0] * 50, "RankingPenalty": [0.0] * 50, "MissingItems": equal}),
    )
    assert not decision.allowed
    found = {name: (m.candidate, m.released, m.outcome) for name, m in decision.metrics.items()}
    assert found == {
        AP: (pytest.approx(0.92), 1.0, "looks worse"),
        "RankingPenalty": (pytest.approx(0.08), 0.0, "looks worse"),
        "MissingItems": (pytest.approx(0.3), pytest.approx(0.06), "looks worse"),
    }
    assert "by 0.0800 on 50 questions (4 missing, counted as lost)" in decision.reasons[0]
    assert decision.metrics[AP].loss == pytest.approx(1 / 32, abs=0.002)


def test_the_released_metrics_are_compared_not_those_that_the_candidate_has(workspace):
    """All judgements of the candidate failed; its documents alone are measured, by gold."""
    known = {"DocumentPresence@5": [1.0] * 25}
    write_scores(workspace, "default", {AP: [None] * 25, **known})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 25, **known}))
    assert not decision.allowed
    assert decision.metrics[AP].outcome == "too many missing"
    assert "DocumentPresence@5" not in decision.metrics


@pytest.mark.parametrize(
    ("before", "remedy"),
    [
        ({f"q{n}": None for n in range(50)}, "evaluate again"),
        ({f"renamed{n}": 1.0 for n in range(50)}, "restore the texts of its questions"),
    ],
)
def test_a_candidate_that_cannot_be_compared_is_refused_with_the_way_out(workspace, before, remedy):
    write_scores(workspace, "default", {AP: [None] * 50})
    decision = decide(workspace, "default", Reference("release-000001", "plain", {AP: before}))
    assert (decision.allowed, decision.passed) == (False, False)
    (reason,) = decision.reasons
    assert f"has no value for the present questions: {remedy}, or set gate.metrics to []" in reason


def judged(folder, **more):
    """Return a corpus with a chat model as judge. The model is never asked."""
    chat = {"provider": "openai", "model": "m", "base_url": "http://localhost:9"}
    relevance = {"judge": "llm", "chat": "small", **more}
    file = write_corpus(folder, chats={"small": chat}, evaluation={"relevance": relevance})
    return Workspace(load_config(file))


def write_labels(workspace, labels):
    """Write the judge's labels of each question: YES, NO or a failure, best passage first."""
    rows = [(f"q{i}", label) for i, own in enumerate(labels) for label in own]
    ids, found = zip(*rows, strict=True)
    none = [None] * len(rows)
    columns = {"query_id": ids, "chunk_id": ids, "label": found, "gold": none, "error": none}
    LABELS.write(workspace, LABELS.table(columns), {}, "default")


def test_the_first_questions_with_gold_have_nothing_to_lose(tmp_path):
    """Release 1 was made without questions. Their scores are the first, and must not fail."""
    workspace = judged(tmp_path)
    write_scores(workspace, "default", {AP: []})
    keep_scores(workspace, "release-000001", "default")
    queries = [Query(f"q{n}", f"Is it {n}?", gold_documents=("a.txt",)) for n in range(20)]
    save_queries(workspace, queries_digest(workspace), queries, [], 20)
    first = Reference("release-000001", "default", kept_scores(workspace, "release-000001"))
    for missing, allowed in ((2, True), (3, False), (20, False)):
        write_scores(workspace, "default", {AP: [None] * missing + [0.0] * (20 - missing)})
        write_labels(workspace, [[None]] * missing + [[False] * 5] * (20 - missing))
        decision = decide(workspace, "default", first)
        assert decision.allowed == allowed, decision.reasons
    assert "has none for 20 of 20 questions: evaluate again, or set" in decision.reasons[1]
    for labels in ([False] * 2, [False] * 5 + [None], []):  # no failure at rank 1-5
        write_labels(workspace, [labels] * 19 + [[False]])
        assert decide(workspace, "default", first).allowed
    without = [Query(q.query_id, q.query) for q in queries]
    save_queries(workspace, "other", without, [], 20)
    by_gold = Workspace(load_config(write_file(tmp_path)))
    assert decide(by_gold, "default", first).allowed, "no question has gold"


def test_a_first_release_needs_the_values_of_each_gate_metric(tmp_path):
    """A judge that failed on 2 of 20 leaves enough. A judge measures no nDCG, so none is lost."""
    workspace = judged(tmp_path)
    write_questions(workspace, {f"q{n}": f"Is it {n}?" for n in range(20)})
    for missing, failed, refused in ((2, 1, ""), (3, 1, f"{AP}: refused: "), (2, 3, "CriticalR")):
        write_scores(workspace, "default", {AP: [None] * missing + [1.0] * (20 - missing)})
        write_labels(workspace, [[None, False]] * missing + [[True, None]] * (20 - missing))
        note = {"annotated": 10, "missing": failed}
        ENTITY_SCORES.write(workspace, ENTITY_SCORES.schema.empty_table(), note, "default")
        decision = decide(workspace, "default", None)
        assert decision.allowed == decision.passed == (not refused)
        assert decision.reasons[0] == "nothing is released yet"
        assert [r.startswith(refused) for r in decision.reasons[1:]] == [True] * bool(refused)


def test_a_judge_of_two_passages_gates_at_two(tmp_path):
    """One of 4 lost and one won at rank 2 is no clear loss. At 5, the lost one has no value."""
    workspace = judged(tmp_path, passages=2)
    own = {AP: [None, 1.0, 1.0, 1.0], "AnswerPresence@2": [0.0, 1.0, 1.0, 1.0]}
    write_scores(workspace, "default", own)
    before = {AP: [1.0, None, 1.0, 1.0], "AnswerPresence@2": [1.0, 0.0, 1.0, 1.0]}
    decision = decide(workspace, "default", served(**before))
    assert AP not in decision.metrics
    assert decision.metrics["AnswerPresence@2"].outcome == "undecided", "so it is allowed"


@pytest.mark.parametrize(
    ("kept", "gone", "few"), [(25, 25, 0), (24, 26, 1), (0, 3, 1), (3, 2, 0), (2, 2, 1), (1, 1, 0)]
)
def test_half_of_the_released_questions_and_three_are_compared(workspace, kept, gone, few):
    """Two lost questions are so in 1/2 * 1/2**2 = 12.5 % of equal cases: too often to be refused.

    A metric with two values in the release can't show a loss in any case.
    """
    n = kept + gone
    write_scores(workspace, "default", {AP: [1.0] * kept + [0.0] * gone, NDCG: [1.0] * n})
    before = {f"q{i}" if i < kept else f"removed{i}": 1.0 for i in range(n)}
    equal = {f"q{i}": 1.0 for i in range(n)}
    decision = decide(workspace, "default", Reference("r", "plain", {AP: before, NDCG: equal}))
    assert decision.metrics[AP].outcome == ("too few" if few else "undecided")
    assert decision.allowed == (not few)
    told = f"compared on only {kept} of the release's {n} questions; restore their texts"
    assert (told in decision.reasons[0]) == few


def test_whole_documents_are_compared_if_most_questions_have_only_these(workspace):
    document = "DocumentPresence@5"
    for answered, is_compared in ((9, True), (10, False)):
        values = [1.0] * answered + [None] * (20 - answered)
        write_scores(workspace, "default", {AP: values, document: [0.0] * 20})
        decision = decide(workspace, "default", served(**{AP: values, document: [1.0] * 20}))
        assert (document in decision.metrics) == is_compared == (not decision.allowed)


def test_fewer_than_the_minimum_queries_are_refused(tmp_path):
    file = write_corpus(tmp_path, gate={"metrics": [AP], "minimum_queries": 30})
    workspace = Workspace(load_config(file))
    for values in ([1.0] * 29, [None, *[1.0] * 29]):
        write_scores(workspace, "default", {AP: values})
        decision = decide(workspace, "default", served(**{AP: [1.0] * len(values)}))
        assert decision.metrics[AP].outcome == "too few"
        assert not decision.allowed


def test_all_comparisons_together_spend_5_percent():
    """The n-th may spend 0.05 / n(n + 1). With a decay of 0.5, the first 99 leave a tenth."""
    assert spent(1) == pytest.approx(0.025)
    assert sum(spent(look) for look in range(1, 10_000)) == pytest.approx(0.05, abs=1e-5)
    assert spent(3, 0.5) == pytest.approx(0.05 * (0.57735 - 0.5), abs=1e-6)
    assert sum(spent(look, 0.5) for look in range(1, 100)) == pytest.approx(0.045)


def test_configurations_are_compared_on_common_queries():
    """`bad` has 1.0 on the one query that it left whole; `good` has 0.6 on all ten."""
    good = {f"q{n}": 0.6 for n in range(10)}
    bad: dict[str, float | None] = {**dict.fromkeys(good), "q3": 1.0}
    nearly: dict[str, float | None] = {**good, "q9": None}
    common, complete = comparable({"bad": bad, "good": good, "nearly": nearly}, 0.1)
    assert complete == ["good", "nearly"]
    assert common == [f"q{n}" for n in range(9)]


def test_only_common_queries_count(workspace):
    write_scores(workspace, "default", {AP: [0.0] * 4 + [1.0] * 6})
    decision = decide(workspace, "default", served(**{AP: [1.0] * 4}))
    assert (decision.queries, decision.common) == (10, 4)
    assert decision.metrics[AP].candidate == 0.0
    assert decision.metrics[AP].comparison.n == 4


def test_kept_scores_are_of_unchanged_queries(workspace):
    write_questions(workspace, {"q0": "How long?", "q1": "How much?", "q2": "How long?"})
    write_scores(workspace, "default", {AP: [1.0, 0.0, None]})
    keep_scores(workspace, "release-000001", "default")
    assert kept_scores(workspace, "release-000001") == read_scores(workspace, "default")
    write_questions(workspace, {"q0": "How long?", "q1": "How dear?", "q3": "Who?"})
    assert kept_scores(workspace, "release-000001") == {AP: {"q0": 1.0}}
    assert kept_scores(workspace, "release-000002") == {}
    with_removed = kept_scores(workspace, "release-000001", with_removed=True)
    assert with_removed == {AP: {"q0": 1.0, "removed: q1": 0.0, "removed: q2": None}}
    # The same text is the same question. First, the id decides.
    write_questions(workspace, {"q1": "How long?", "q0": "How long?", "new": "How much?"})
    assert kept_scores(workspace, "release-000001") == {AP: {"q0": 1.0, "new": 0.0, "q1": None}}


@pytest.mark.parametrize("told", ["'F2' is not one of: Answer", "higher values of 'RelevantCount'"])
def test_an_unfit_gate_metric_is_named(tmp_path, told):
    metric = told.split("'")[1]
    file = write_corpus(tmp_path, gate={"metrics": [AP, "DocumentMismatch@5", metric]})
    workspace = Workspace(load_config(file))
    write_scores(workspace, "default", {AP: [1.0]})
    with pytest.raises(ConfigError, match=rf"tiny\.yaml: gate\.metrics: {told}"):
        decide(workspace, "default", None)


# No question shares a word with its answer: BM25 finds none of them, vectors all.
ANSWERS = {
    "Cars": ("Where do I leave my automobile?", "Vehicles are parked in the underground garage."),
    "Pets": ("May I bring a puppy?", "Dogs and cats are not permitted inside the building."),
    "Meals": ("When is lunch eaten?", "The canteen serves food from noon until two o'clock."),
    "Doctors": ("Who treats an injury?", "A nurse and a physician are present on weekdays."),
    "Wages": ("When do I get my money?", "Salaries arrive at the end of each month."),
    "Machines": ("My laptop is broken.", "Faulty computers are repaired by the IT department."),
    "Flights": ("May I fly first class?", "Air travel is booked in economy."),
    "Holidays": ("How much vacation is there?", "Employees receive thirty days of annual leave."),
}


@pytest.fixture(scope="module")
def by_meaning(tmp_path_factory):
    """Return a corpus whose questions share no word with their answers, released by vectors."""
    folder = tmp_path_factory.mktemp("gate")
    settings = {
        "configurations": [rule("meaning"), rule("words", retriever="lexical")],
        "retrievers": {"dense": {"method": "dense"}, "lexical": {"method": "lexical"}},
        "serve": "meaning",
    }
    file = write_corpus(folder, **settings)
    for name, (_, answer) in ANSWERS.items():
        (folder / "documents" / f"{name}.txt").write_text(answer)
    corpora.write_questions(
        folder, (question(n, text, f"{n}.txt", answer) for n, (text, answer) in ANSWERS.items())
    )
    list(run(load_config(file)))
    return file, settings, run


def test_scores_of_every_gate_metric_must_be_of_the_run(by_meaning, monkeypatch):
    workspace = Workspace(load_config(by_meaning[0]))
    configuration = workspace.config.configuration("meaning")
    assert obstacles(workspace, configuration) == []
    file, read = ENTITY_SCORES.file("meaning"), workspace.store.read_note
    monkeypatch.setattr(
        workspace.store, "read_note", lambda path: {} if path == file else read(path)
    )
    told = "the current documents, questions and settings are not measured yet; run `rag run`"
    assert obstacles(workspace, configuration) == [told]


def test_a_worse_configuration_is_not_released_until_the_gate_is_opened(by_meaning):
    file, settings, run = by_meaning
    assert Corpus.load(file).release().gate["reasons"] == ["nothing is released yet"]
    write_file(file.parent, **{**settings, "serve": "words"})
    with pytest.raises(CheckFailedError, match=r"words is not released, against release-"):
        list(run(load_config(file)))
    assert Corpus.load(file).release().configuration == "meaning"
    workspace = Workspace(load_config(file))
    decision = gate_decision(workspace)
    assert (decision.allowed, decision.common) == (False, 8)
    assert decision.metrics[AP].comparison.losses == 8

    # The served configuration is no longer listed: its kept scores are compared.
    only = [c for c in settings["configurations"] if c["name"] == "words"]
    write_file(file.parent, **{**settings, "serve": "words", "configurations": only})
    workspace = Workspace(load_config(file))
    reference = served_reference(workspace)
    assert reference.scores[AP] == dict.fromkeys(ANSWERS, 1.0)
    assert not gate_decision(workspace).allowed

    write_file(file.parent, **{**settings, "serve": "words", "gate": {"metrics": []}})
    list(run(load_config(file)))
    release = Corpus.load(file).release()
    assert release.configuration == "words"
    assert release.gate["reasons"] == [
        "gate.metrics is empty: not compared with release-000001 (meaning)"
    ]


def test_the_sentence_says_how_many_questions_are_synthetic(workspace):
    write_scores(workspace, "default", {AP: [1.0] * 9})
    queries = [Query(f"q{i}", f"question {i}", synthetic=i < 4) for i in range(9)]
    save_queries(workspace, queries_digest(workspace), queries, [], 9)
    decision = decide(workspace, "default", served(**{AP: [1.0] * 9}))
    assert "on 9 questions (4 of 9 synthetic)" in decision.reasons[0]


def test_refused_builds_count_as_comparisons(workspace):
    """The same build counts once, however often it is refused."""
    for name in ("default", "plain"):
        RUN.write(workspace, RUN.schema.empty_table(), {"digest": name}, name)
    assert comparison_number(workspace, "default") == 1
    for _ in range(3):
        keep_decision(workspace, Decision(candidate="default", allowed=False, reasons=()))
    assert comparison_number(workspace, "default") == 1
    keep_decision(workspace, Decision(candidate="plain", allowed=False, reasons=()))
    RUN.write(workspace, RUN.schema.empty_table(), {"digest": "third"}, "default")
    assert comparison_number(workspace, "default") == 2


def test_the_number_of_comparisons_counts_releases_that_retention_removed(workspace):
    """Of nine releases the newest two are left."""
    for number in (8, 9):
        workspace.store.write_json(f"releases/release-{number:06d}.json", {})
    assert comparison_number(workspace, "default") == 9
    workspace.store.write_json("releases/current.json", {"release_id": "release-9", "made": 11})
    assert comparison_number(workspace, "default") == 11


@pytest.mark.parametrize(("questions", "documents"), [(60, 0), (200, 20)])
def test_the_loss_that_the_sentence_names_is_seen_in_9_of_10_cases(workspace, questions, documents):
    """Systems agree on 70 % of the questions; else each is right with 0.8, less by the loss."""
    rng = np.random.default_rng(questions)
    document = np.arange(questions) * documents // questions if documents else np.arange(questions)
    groups = {f"q{i}": f"d{d}" for i, d in enumerate(document)}

    def compared(loss):
        base = rng.random(questions) < 0.8
        own = np.where(rng.random(questions) < 0.7, base, rng.random(questions) < 0.8)
        own &= rng.random(questions) >= loss / 0.8
        one, other = ({AP: {f"q{i}": float(v) for i, v in enumerate(x)}} for x in (own, base))
        found, (reason,) = compare_scores(one, other, [AP], Gate(), groups, spent(1))
        return found[AP].outcome, re.findall(r"show a loss of ([\d.]+) in 9", reason)

    stated = np.mean([float(x) for _ in range(30) for x in compared(0.0)[1]])
    assert 0.03 < stated < 0.25
    seen = [compared(stated)[0] in ("worse", "looks worse") for _ in range(100)]
    assert np.mean(seen) >= 0.8


def test_two_metrics_of_few_documents_share_the_error_of_the_guard():
    """So the least loss that the sentence names is greater than for one metric."""
    values = {f"q{i}": 1.0 for i in range(40)}
    groups = {q: f"d{q[-1:] < '5'}" for q in values}
    both = {AP: values}, {AP: values, NDCG: values}
    said = [compare_scores(own, own, [*own], Gate(), groups, 0.025)[1][0] for own in both]
    one, two = (float(re.findall(r"show a loss of (0\.\d+) in 9", each)[0]) for each in said)
    assert one < two
