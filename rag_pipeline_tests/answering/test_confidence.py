from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.confidence import (
    FEWEST,
    auc,
    evidence,
    fit,
    passage_chances,
    placed,
    read_result,
    sentence_evidence,
    threshold,
)
from rag_pipeline.answering.naming import unheld_names
from rag_pipeline.answering.reading import Cut, Passage, read_passages, sentence_vectors
from rag_pipeline.config.calibration import DEFAULT, EVIDENCE, Calibration
from rag_pipeline.config.models import Tokens
from rag_pipeline.datamodels import SearchResult
from rag_pipeline.errors import StoreError
from rag_pipeline_tests.testing.chunking import scored

HALF = 1 / np.sqrt(2)


class _Two:
    """Reads a query of two tokens along the axes, and chunks whose texts are their signs."""

    def question(self, text):
        return Tokens(np.array([1, 2], np.uint32), np.array([[1.0, 0.0], [0.0, 1.0]], np.float32))

    def passage(self, chunk):
        signs = np.array([[float(b) for b in word] for word in chunk.text.split()], np.float32)
        return Passage(chunk, signs, lambda: Cut(np.array([1], np.uint32), np.array([0])))


def test_evidence_is_what_the_definitions_say():
    # "10" is at cosines (+, -) of 1 / root of 2, "11" at (+, +); the third's context adds "01".
    chunks = [scored("a", "10"), scored("b", "11"), scored("b", "10 01")]
    weights = np.array([0.0, 3.0, 1.0, 4.0], np.float32)
    found = evidence("which?", read_passages("which?", chunks, _Two()), _Two(), weights)
    late = [HALF * (0.75 - 0.25), HALF, HALF]
    expected = [
        # Only two tokens: the three worst met are these two.
        [late[0], 0.0, late[0] - HALF, 0, 0, 0],
        [late[1], HALF, late[1] - (late[0] + late[2]) / 2, 1 / 2, 0, 0],
        [late[2], HALF, late[2] - (late[0] + late[1]) / 2, 1 / 2, 0, 0],
    ]
    assert found.rows == pytest.approx(np.array(expected), abs=1e-6)
    assert found.best == 1
    assert found.row == pytest.approx(expected[1], abs=1e-6)


def test_passages_of_an_index_are_compared_without_being_cut_into_tokens():
    class Signs(_Two):
        def passage(self, chunk):
            return Passage(chunk, super().passage(chunk).signs, None)

    chunks, weights = [scored("a", "10"), scored("b", "11 01")], np.ones(3, np.float32)
    (alone, cut) = (
        evidence("which?", read_passages("which?", chunks, reader), reader, weights).rows
        for reader in (Signs(), _Two())
    )
    assert (alone == cut).all()


def test_what_asks_of_nothing_that_the_index_holds_has_no_chance_unless_it_is_met_well():
    chunks = [scored("a", "10"), scored("b", "11")]
    for highest, late in ((3.2, [0.0, HALF]), (4.0, [0.52 * HALF, HALF])):
        # 0.76 of the question is a token that, at the highest weight, no chunk holds.
        weights = np.array([0.0, 3.2, 1.0105263, highest], np.float32)
        found = evidence("which?", read_passages("which?", chunks, _Two()), _Two(), weights)
        assert found.rows[:, 0] == pytest.approx(late, abs=1e-4)
        assert (DEFAULT.chances(found.rows) == 0).tolist() == [late[0] == 0, False]


def test_chances_of_passages_do_not_depend_on_how_many_are_asked_for():
    chunks = [scored("a", "11"), *(scored(f"{n}", "10") for n in range(9)), scored("a", "10 11")]
    few = passage_chances(SearchResult(query="which?", chunks=chunks[:5]), _Two(), DEFAULT)
    many = passage_chances(SearchResult(query="which?", chunks=chunks), _Two(), DEFAULT)
    assert many[:5] == pytest.approx(few)
    assert max(many) == max(many[0], many[-1])


def test_what_has_no_words_has_no_chance():
    found = SearchResult(query="which?", chunks=[scored("a", " – ")])
    assert passage_chances(found, _Two()) == [0.0]


def examples(seed: int, n: int = 300):
    """Return evidence whose first piece tells answers apart, by a known chance."""
    random = np.random.default_rng(seed)
    rows = random.normal(0.7, 0.1, size=(n, len(EVIDENCE)))
    chance = 1 / (1 + np.exp(-20 * (rows[:, 0] - 0.7)))
    return rows, random.random(n) < chance, [f"d{i // 4}" for i in range(n)]


def test_the_fit_is_the_penalised_maximum_of_the_likelihood():
    rows, answers, groups = examples(1)
    made = fit(rows, answers, groups, 0.1)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)

    def loss(found):
        values = scaled @ found[:-1] + found[-1]
        return np.sum(np.logaddexp(0, values) - answers * values) + 5 * np.sum(found[:-1] ** 2)

    best = minimize(loss, np.zeros(len(EVIDENCE) + 1)).x
    assert np.array(made.weights) * rows.std(axis=0) == pytest.approx(best[:-1], abs=1e-3)
    assert made.chances(rows) == pytest.approx(
        1 / (1 + np.exp(-(scaled @ best[:-1] + best[-1]))), abs=1e-3
    )


def test_the_promised_error_is_held_on_questions_that_were_not_seen():
    wrong = []
    for seed in range(40):
        rows, answers, groups = examples(seed)
        made = fit(rows, answers, groups, 0.1)
        new, held, _ = examples(seed + 1000)
        wrong.append(np.mean(made.chances(new)[held] < made.least))
    assert np.mean(wrong) == pytest.approx(0.1, abs=0.02)


def test_a_model_is_placed_between_general_and_made_questions():
    # Scores of 8.5 x late interaction: general 0 to 0.85, made 3.4 to 5.1.
    def rows(low, high, n):
        made = np.zeros((n, len(EVIDENCE)))
        made[:, 0] = np.linspace(low, high, n)
        return made

    made, general = rows(0.4, 0.6, 51), rows(0.0, 0.1, 11)
    found = placed(made, general)
    # Medians at 0.5 and 0.05; the quantile 0.08 of the made ones is 0.416.
    least = 0.416 - 0.3 * 0.45
    # The logit rises by 4.5 from median to median, and the chance is 0.3 at the threshold.
    logit = np.log(0.3 / 0.7) + 4.5 * (np.array([0.5, least, 0.25]) - least) / 0.45
    row = np.zeros((3, len(EVIDENCE)))
    row[:, 0] = 0.5, least, 0.25
    assert found.chances(row) == pytest.approx(1 / (1 + np.exp(-logit)))
    assert (found.least, found.answerable, found.unanswerable) == (0.3, 51, 11)
    # Seven made questions are too few: nine of ten general ones are below the threshold.
    few = placed(made[:7], general)
    high = np.zeros((1, len(EVIDENCE)))
    high[:, 0] = 0.21
    far = 8.5 * (0.21 - 0.09) * 4.5 / 3.0 + np.log(0.3 / 0.7)
    assert few.chances(high) == pytest.approx(1 / (1 + np.exp(-far)))
    assert placed(np.repeat(general, 2, axis=0), made) is None
    assert placed(made, rows(0, 0, 0)) is None


def test_where_sentences_are_compared_the_lower_of_two_places_is_the_threshold():
    made, general = np.zeros((51, len(EVIDENCE))), np.zeros((11, len(EVIDENCE)))
    made[:, 5], general[:, 5] = 1.2, np.linspace(0.8, 0.9, 11)
    found = placed(made, general)
    # Scores 25 x best sentence - 5 x unheld name: the quantile 0.9 is 22.25.
    row = np.zeros((3, len(EVIDENCE)))
    row[:, 0], row[:, 5], row[2, 4] = 0.3, [0.889, 0.891, 1.08], 1.0
    assert (found.chances(row) < found.least).tolist() == [True, False, True]
    # Made questions whose lower quartile scores 24.75 allow 21.65.
    made[:, 5], made[:10, 5] = 0.99, 0.5
    lower, row = placed(made, general), row[:2]
    row[:, 5] = 0.865, 0.867
    assert (lower.chances(row) < lower.least).tolist() == [True, False]
    # Seven made questions are too few: half of the general ones are below the threshold.
    few = placed(made[-7:], general)
    row[:, 5] = 0.849, 0.851
    assert (few.chances(row) < few.least).tolist() == [True, False]
    row[1, 5] = 0.891
    # The logit rises by 4.5 for 3 points of the score.
    logit = np.log(0.3 / 0.7) + 1.5 * (25 * 0.891 - 22.25)
    assert found.chances(row)[1] == pytest.approx(1 / (1 + np.exp(-logit)))


def test_a_calibration_of_a_newer_version_is_refused():
    rows = np.full((1, len(EVIDENCE)), 0.5)
    older = Calibration((1.0, 0.0), 0.0, 0.5)
    assert older.chances(rows) == pytest.approx(1 / (1 + np.exp(-0.5)))
    newer = Calibration((1.0,) * (len(EVIDENCE) + 1), 0.0, 0.5)
    with pytest.raises(StoreError, match="7 inputs and this version knows 6: a newer version"):
        newer.chances(rows)


def test_the_best_sentence_counts_where_another_model_found_the_passages():
    chunks = [
        scored("a", "The hall costs 270 euros."),
        scored("b", "What the attic costs is unknown."),
    ]
    question = "What does the hall cost?"
    found = SearchResult(query=question, chunks=chunks)
    agreed = ranked_sentences(question, chunks)
    each = agreed.of_chunks(2)
    assert each[0] > each[1] > 0
    known = sentence_evidence(found, agreed)
    # The scores of both passages are equal, and no name or year is missing.
    assert known.rows.tolist() == [pytest.approx([1, 0, 0, 0, 0, value]) for value in each]
    assert known.best == 0
    by_sentence = Calibration((0.0,) * 5 + (1.0,), 0.0, 0.5)
    chances = passage_chances(found, sentence_vectors, by_sentence)
    assert chances == pytest.approx((1 / (1 + np.exp(-each))).tolist())
    assert not read_result(found, sentence_vectors)[1].rows[:, 5].any()


def test_a_leading_passage_and_missing_years_are_evidence():
    chunks = [scored(str(n), f"Hall {n} opened in 201{n}.") for n in range(3)]
    chunks = [replace(c, score=score) for c, score in zip(chunks, (4.0, 1.0, 1.0), strict=True)]
    found = SearchResult(query="Which hall opened in 2012?", chunks=chunks)
    known = sentence_evidence(found, ranked_sentences(found.query, chunks))
    assert known.rows[:, 2] == pytest.approx([1 - 2 / 4] * 3)
    assert known.rows[:, 4].tolist() == [1, 1, 0]
    assert known.best == 2
    assert sentence_evidence(found, ranked_sentences(found.query, [])) is None


def test_the_threshold_is_a_rank_of_the_chances():
    chances = np.array([0.9, 0.1, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6])
    # floor(0.1 x 10) = 1: the lowest; floor(0.25 x 10) = 2: the next; 0.05 x 10 is before any.
    assert [threshold(chances, e) for e in (0.1, 0.25, 0.05)] == [0.1, 0.2, 0.0]


def test_auc_counts_pairs():
    # Of six pairs four are won and one is tied.
    assert auc(np.array([0.9, 0.5]), np.array([0.1, 0.5, 0.6])) == pytest.approx(4.5 / 6)


def test_nothing_is_fitted_to_few_questions():
    rows, answers, groups = examples(3)
    few = np.flatnonzero(answers)[: FEWEST - 1].tolist() + np.flatnonzero(~answers).tolist()
    assert fit(rows[few], answers[few], [groups[i] for i in few], 0.1) is None


def test_what_has_nothing_in_common_with_a_question_has_no_chance():
    sure = Calibration((0.0,) * len(EVIDENCE), 5.0, 0.5)
    rows = np.zeros((2, len(EVIDENCE)))
    rows[:, 0] = 0.15, 0.25
    assert sure.chances(rows) == pytest.approx([0.0, 1 / (1 + np.exp(-5))])


def test_the_default_tells_what_is_met_from_what_is_not():
    near, far = np.array([0.55, 0.4, 0.1, 1.0, 0]), np.array([0.2, 0.1, 0, 0, 0])
    chances = DEFAULT.chances(np.array([near, far]))
    assert chances[0] > 0.8
    assert chances[1] < DEFAULT.least


@pytest.mark.parametrize(
    ("question", "unheld"),
    [
        ("Does Tambor deliver Geisha beans?", ["geisha"]),
        ("What did Tambor deliver in 2019?", ["2019"]),
        ("When does Tambor deliver H-120?", ["h-120"]),
        ("Does Tambor deliver to the Parthenon?", ["parthenon"]),
        ("What does error F07 on the R15 mean?", ["r15"]),
        ("Is the Honduran or the Sumatran bean meant by Tambors?", []),
        ("When is the delivery in June?", []),
        ("Wer schrieb den Roman „Effi Briest“?", ["effi", "briest"]),
        ("Wie lang muss mein Kennwort für die Lieferung sein?", []),
        ("Was kostet ein zweites Tier im Jahr?", []),
        ("May the Receiving Party be told by Vendor Party of Vxyq Tambor?", ["vxyq"]),
        ("Does Tambur deliver late?", []),
        ("IS TAMBOR LATE?", []),
        ("¿Cuándo llega Tambor?", []),
        ("", []),
    ],
)
def test_names_that_no_passage_holds_lower_the_confidence(question, unheld):
    chunks = [scored("contracts/tambor.txt", "The party's beans come in 2024; F07 means heat.")]
    assert unheld_names(question, chunks) == unheld
    reading = _Two()
    read = read_passages(question, [scored("tambor 2024 F07", "10")], reading)
    row = evidence(question, read, reading).row
    assert row[EVIDENCE.index("unheld name")] == bool(unheld)
    met = np.array([[0.55, 0.4, 0.1, 1.0, 0.0], [0.55, 0.4, 0.1, 1.0, 1.0]])
    assert DEFAULT.chances(met)[1] < DEFAULT.least < 0.8 < DEFAULT.chances(met)[0]
