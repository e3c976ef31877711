"""A calibration is fitted to a corpus's own questions, kept with its answers, and served."""

from collections import Counter

import numpy as np
import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import listening
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import SearchResult
from rag_pipeline.evaluation import calibration
from rag_pipeline.evaluation.answers import (
    count_questions,
    load_answers,
    load_calibration,
    update_answers,
)
from rag_pipeline.evaluation.calibration import calibrated, examples
from rag_pipeline.evaluation.general_questions import GENERAL
from rag_pipeline.evaluation.runs import load_queries, load_ranked, update_run
from rag_pipeline.models.providers.e5 import E5Embedding
from rag_pipeline.release import current
from rag_pipeline.search.index import Index
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.chunking import scored
from rag_pipeline_tests.testing.corpora import (
    question,
    write_documents,
    write_file,
    write_questions,
)

NAMES = (
    "Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel Ivy Juniper Kauri Larch Maple Nutmeg Olive "
    "Poplar Quince Rowan Spruce Teak Umbrella Walnut Yew Zelkova"
).split()
DOCUMENTS = {
    f"{name.lower()}.txt": (
        f"Lease of {name} House\n\nThe rent of {name} House is {n + 3}00 euros a month. "
        f"Pets are allowed in {name} House with consent.\n"
    )
    for n, name in enumerate(NAMES)
}
QUERIES = [
    (f"q{n}", f"What is the rent of {name} House?", f"{name.lower()}.txt", f"{n + 3}00 euros")
    for n, name in enumerate(NAMES)
]


ABSENT = {
    "query_id": "absent",
    "query": "What is the rent of Baobab House?",
    "gold_spans": [],
    "tags": ["unanswerable"],
}


def written(folder, questions):
    """Write the documents, a number of their questions, and an unanswerable one."""
    write_documents(folder / "documents", DOCUMENTS)
    write_questions(folder, [*(question(*asked) for asked in QUERIES[:questions]), ABSENT])
    return load_config(write_file(folder, evaluation={"answers": {"error": 0.05}}))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    corpus = Corpus(written(tmp_path_factory.mktemp("fitted"), 24))
    list(run(corpus.config, "default"))
    return corpus


def test_examples_are_the_questions_with_and_without_their_gold_documents(fitted):
    workspace = fitted.workspace
    made = examples(
        workspace,
        workspace.config.configuration("default"),
        load_queries(workspace),
        load_ranked(workspace, "default"),
        CallCounts(),
    )
    answers, removed = np.array(made.answers), np.array(made.removed)
    assert (len(made.rows), answers.sum(), removed.sum()) == (49, 24, 24)
    assert not (answers & removed).any()
    # The unanswerable question was searched once.
    assert (~answers & ~removed).sum() == 1


def test_the_steps_of_an_evaluation_open_the_index_once(fitted, monkeypatch):
    workspace = Workspace(fitted.config)
    configuration = workspace.config.configuration("default")
    opened = []
    real = Index.open

    def counted(*of):
        opened.append(of)
        return real(*of)

    monkeypatch.setattr(Index, "open", counted)
    before = load_answers(workspace, "default")
    update_run(workspace, configuration)
    done = Counter()
    with listening(lambda what, count: done.update({what: count})):
        update_answers(workspace, configuration)
    assert load_answers(workspace, "default") == before
    assert len(opened) == 1
    # 25 questions are answered, and 24 are read with and without gold. One has no gold.
    told = done["answers and trials"], count_questions(workspace, configuration)
    assert told == (25 + 49, 25 + 50)


def test_the_release_keeps_what_was_fitted_and_answers_by_it(fitted):
    made = load_calibration(fitted.workspace, "default")
    assert (made.answerable, made.unanswerable) == (24, 25)
    assert made.auc > 0.9
    assert current(fitted.workspace).typed_settings().calibration == made
    assert fitted.calibration() == made
    assistant = open_assistant([fitted])
    measured = load_answers(fitted.workspace, "default")
    sure = assistant.ask("What is the rent of Quince House?").confidence
    assert sure == measured["q16"].confidence
    assert sure > assistant.ask("What is the rent of Baobab House?").confidence
    (first, *_) = assistant.rated("What is the rent of Quince House?", "tiny", 5)
    assert first[1] == pytest.approx(sure)


def test_too_few_queries_for_a_threshold_do_not_make_the_calibration(fitted):
    config, name = fitted.config, "default"
    answers = config.evaluation.answers.model_copy(update={"error": 0.02})
    evaluation = config.evaluation.model_copy(update={"answers": answers})
    workspace = Workspace(config.model_copy(update={"evaluation": evaluation}))
    queries, ranked = load_queries(workspace), load_ranked(workspace, name)
    # floor(0.02 x 25) = 0: a threshold is not known.
    found = calibrated(
        workspace, workspace.config.configuration(name), queries, ranked, CallCounts()
    )
    assert (found.error, found.least) == (None, 0.3)


def test_sentences_count_only_where_their_model_embeds_the_queries(fitted):
    config = fitted.config
    e5 = config.model_copy(update={"embeddings": {"minilm": E5Embedding(provider="e5")}})
    found = SearchResult(query="Who rents the hall?", chunks=[scored("a", "Ada rents the hall.")])
    rows = [
        calibration._read(Workspace(one), one.configuration("default"), None, found)[1].row
        for one in (config, e5)
    ]
    assert [row[5] > 0 for row in rows] == [False, True]


@pytest.mark.parametrize("asked", [0, 24])
def test_without_people_s_questions_general_ones_place_the_calibration(
    tmp_path, monkeypatch, asked
):
    monkeypatch.setattr(calibration, "GENERAL", GENERAL)
    write_documents(tmp_path / "documents", DOCUMENTS)
    synthetic = [{**question(*one), "synthetic": True} for one in QUERIES[:asked]]
    if synthetic:
        write_questions(tmp_path, synthetic)
    config = load_config(write_file(tmp_path, **({} if synthetic else {"queries": None})))
    list(run(config, "default"))
    corpus = Corpus(config)
    made = corpus.calibration()
    assert (made.least, made.error, made.unanswerable) == (0.3, None, len(GENERAL))
    assistant = open_assistant([corpus])
    assert assistant.ask("What is the rent of Quince House?").answered
    assert not assistant.ask("Which river flows through Vienna?").answered
    assert not assistant.ask("What is the rent of Quorvik House?").answered
