"""The language of a text, and of the documents of a folder."""

from pathlib import Path

import pytest

from rag_pipeline.loading.languages import language_of, languages_of
from rag_pipeline.loading.survey import survey
from rag_pipeline_tests.testing.scanning import load

QUESTIONS = {
    "en": "How long is the notice period?",
    "de": "Wie lange ist die Kündigungsfrist?",
    "fr": "Quelle est la durée du préavis ?",
    "es": "¿Cuánto dura el preaviso?",
    "it": "Qual è il periodo di preavviso?",
    "zh": "通知期多长？",
    "ja": "契約期間はどのくらいですか",
    "ar": "ما هي مدة الإشعار؟",
}


@pytest.mark.parametrize("code", QUESTIONS)
def test_questions(code: str) -> None:
    assert language_of(QUESTIONS[code]) == code


@pytest.mark.parametrize("text", ["", " \n", "12 | 34", "§ 3", "x1"])
def test_few_letters_have_no_language(text: str) -> None:
    assert language_of(text) == ""


def test_shares_skip_texts_without_a_language() -> None:
    two = [f"{QUESTIONS[code]} {QUESTIONS[code]}" for code in ("de", "zh", "de")]
    mixed = f"{QUESTIONS['en']} {QUESTIONS['fr']}"
    found = languages_of([*two, mixed, "12"])
    assert found == {"de": pytest.approx(2 / 3), "zh": pytest.approx(1 / 3)}


def test_a_document_has_a_language_unless_its_fields_give_one(tmp_path: Path) -> None:
    text = QUESTIONS["de"] * 3
    assert load(tmp_path / "a.txt", text.encode()).metadata["language"] == "de"
    own = f"---\nlanguage: Deutsch\n---\n{text}"
    assert load(tmp_path / "b.md", own.encode()).metadata["language"] == "Deutsch"
    assert "language" not in load(tmp_path / "c.txt", b"12 34").metadata


def test_a_survey_reads_readable_documents(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(QUESTIONS["de"] * 20, "utf-8")
    (tmp_path / "short.txt").write_text("text")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (tmp_path / "prices.csv").write_text("article;price\nvan de fan;12\n" * 30)
    assert survey(tmp_path).languages == {"de": 1.0}, "tables do not count beside prose"
    assert survey(tmp_path / "0.txt").languages == {"de": 1.0}
    assert survey(tmp_path / "short.txt").languages == {}
