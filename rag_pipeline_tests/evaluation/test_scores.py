"""A metric, a judge and an answer score of another package, from the corpus file to the report."""

import json
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Answer, Query
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.answer_scores import Answered, token_overlap
from rag_pipeline_tests.testing.corpora import rule, write_corpus
from rag_pipeline_tests.testing.plugins import rag, write_package

CODE = """
from typing import Literal

from rag_pipeline.config import RelevanceJudge
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.metrics import Metric, RankingMetric

CHUNKS = RankingMetric(
    name="Chunks@3",
    definition="Number of chunks among the first 3.",
    measure=lambda ranking: float(len(ranking.chunks[:3])),
    needs="chunks",
    is_share=False,
)

class Shouting(RelevanceJudge):
    judge: Literal["shouting"]
    passages: int = 20

    def label(self, asked, models):
        return [len(chunk.text) > 0 for query, chunk in asked]

class Brevity(AnswerScore):
    score: Literal["brevity"]
    metrics = (
        Metric(
            name="Brevity",
            definition="1 / words.",
            measure=lambda answered: 1 / len(answered.answer.text.split()),
        ),
    )
"""
POINTS = """
[rag_pipeline.metrics]
chunks = measures:CHUNKS
[rag_pipeline.judges]
shouting = measures:Shouting
[rag_pipeline.answer_scores]
brevity = measures:Brevity
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an installed package."""
    folder = tmp_path_factory.mktemp("site")
    write_package(folder, "measures", POINTS, CODE)
    return folder


@pytest.fixture(scope="module")
def file(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a corpus that was run with the package."""
    file = write_corpus(
        tmp_path_factory.mktemp("plugged"),
        configurations=[rule("one")],
        evaluation={
            "relevance": {"judge": "shouting"},
            "scores": [{"score": "brevity"}, {"score": "token_overlap"}],
        },
        serve_metric="Chunks@3",
        gate={"metrics": ["Chunks@3", "Brevity"]},
    )
    ran = rag(site, "run", str(file))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return file


def board_of(site: Path, file: Path, *arguments: str) -> dict[str, Any]:
    shown = rag(site, "leaderboard", *arguments, "--json", "-c", str(file))
    assert shown.returncode == 0, shown.stderr
    board: dict[str, Any] = json.loads(shown.stdout)
    return board


def test_other_packages_metrics_are_on_the_leaderboard_and_in_the_report(site, file, tmp_path):
    board = board_of(site, file)
    (row,) = board["configurations"]
    assert board["sorted_by"] == "Chunks@3"
    assert row["metrics"]["Chunks@3"]["mean"] == 3.0
    assert 0 < row["metrics"]["Brevity"]["mean"] <= 1
    # The judge says YES to whatever was found.
    assert row["metrics"]["AnswerPresence@1"]["mean"] == 1.0
    assert board_of(site, file, "--sort", "Brevity")["sorted_by"] == "Brevity"
    assert "Chunks@3" in rag(site, "leaderboard", "-c", str(file)).stdout
    page = tmp_path / "report.html"
    assert rag(site, "report", "-c", str(file), "-o", str(page)).returncode == 0
    assert "Brevity" in page.read_text() and "Chunks@3" in page.read_text()


def test_an_unknown_score_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="'length' is not one of: 'token_overlap'"):
        load_config(write_corpus(tmp_path, evaluation={"scores": [{"score": "length"}]}))


def overlap(given: str, expected: str | None) -> float | None:
    return token_overlap(Answered(Query("q", "?", (), expected), [], Answer(given, True)))


def test_token_overlap():
    # 2 words are shared, of 4 given and 3 expected: 2 * 2 / (4 + 3)
    assert overlap("It is five years.", "Five (5) YEARS") == pytest.approx(4 / 7)
    assert overlap("five years", "Five years!") == 1.0
    assert overlap("never", "five years") == 0.0
    assert overlap("five years", None) is None
