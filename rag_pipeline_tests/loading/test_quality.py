"""Measures of a text's quality, and the limits for warnings."""

import json
from pathlib import Path

import pytest

from rag_pipeline.cli.run import _show_problems
from rag_pipeline.config import load_config
from rag_pipeline.indexing import text_warnings, update_documents
from rag_pipeline.loading.quality import (
    TextQuality,
    doubts_of_prose,
    measure,
    share_known,
    with_known,
)
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import write_corpus

ENGLISH = (
    "The Receiving Party shall hold the Confidential Information in strict confidence and shall "
    "not disclose it to any third party without the prior written consent of the Disclosing "
    "Party. This Agreement commences on the date first written above and continues for three "
    "years unless it is terminated earlier by either party upon written notice."
)
SWEDISH = (
    "Mottagaren ska behandla den konfidentiella informationen strikt förtroligt och får inte "
    "lämna ut den till någon tredje part utan föregående skriftligt samtycke från den utlämnande "
    "parten. Detta avtal träder i kraft den dag som anges ovan och gäller i tre år om det inte "
    "sägs upp tidigare av någon av parterna med trettio dagars skriftligt varsel."
)
SHIFTED = "".join(chr(ord(c) + 1) if c.isalpha() else c for c in ENGLISH)
"""As of a font that names each letter by the next one."""


def doubts(text: str, language: str = "en") -> list[str]:
    record = doubts_of_prose(text, language)
    return TextQuality.from_json(record).warnings() if record else []


def test_glued_words_table_rows_and_unknown_characters_are_counted() -> None:
    glued = "confidentialinformationinstrictconfidence"
    text = f"| a | b |\n{glued} servletConfigurationFactoryBean see https://{glued}.example now"
    found = measure(text, [60, 0], 15, unread=1)
    assert (found.words, found.glued) == (6, 1 / 6)  # names of programs and addresses are none
    assert found.pipes == 9 / len(text)
    assert (found.replaced, found.with_text, found.unread) == (0.25, 1, 1)
    assert found.mean_word == pytest.approx((1 + 1 + 41 + 31 + 3 + 3) / 6)


GERMAN = (
    "Die Versicherung gilt ein Jahr und wird dann um ein weiteres Jahr verlängert, wenn sie nicht "
    "einen Monat vor dem Ende schriftlich gekündigt wird. Der Schaden ist sofort zu melden, damit "
    "er geprüft werden kann, und die Rechnung der Werkstatt ist mit dem Antrag an uns zu senden. "
    "Fahrradversicherungsgesellschaft Übernachtungsmöglichkeitenliste"
)


def test_only_german_has_long_nouns() -> None:
    glued = " Inthispaperwepresentanewmethod"
    assert doubts(GERMAN, "de") == []
    assert with_known(measure(GERMAN, [400], 0).to_json(), GERMAN, "de").count('"glued": 0.0,')
    assert "they may be glued" in doubts(ENGLISH + glued)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ENGLISH, []),
        (ENGLISH + " confidentialinformationinstrictconfidence", ["they may be glued"]),
        (ENGLISH + " CONFIDENTIALINFORMATIONINSTRICT", ["they may be glued"]),
        (" ".join(" ".join(ENGLISH.replace(" ", ""))), ["letters on average"]),
        (ENGLISH + "\ufffd" * 10, ["no known encoding"]),
        (SHIFTED, ["of the words are in the language's dictionary"]),
    ],
)
def test_values_beyond_a_limit_give_warnings(text: str, said: list[str]) -> None:
    found = doubts(text)
    assert len(found) == len(said)
    assert all(words in line for words, line in zip(said, found, strict=True))


def test_each_language_has_its_own_dictionary() -> None:
    assert share_known(ENGLISH, "en") == 1.0
    assert share_known(SWEDISH, "de") is None  # what `language_of` takes it for
    assert share_known(ENGLISH, "ja") is None
    assert share_known("Few words.", "en") is None


def test_doubtful_text_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_corpus(tmp_path)
    (tmp_path / "documents/shifted.html").write_text(f"<p>{SHIFTED}</p>")
    (tmp_path / "documents/given.md").write_text(f"---\ntext_quality: high\n---\n{ENGLISH}")
    workspace = Workspace(load_config(file))
    update_documents(workspace)
    (line,) = text_warnings(workspace)
    assert line.startswith("shifted.html: ")
    assert line.endswith("of the words are in the language's dictionary")
    _show_problems(workspace)
    said = capsys.readouterr().out
    assert f"1 document with doubtful text (`rag show` prints it):\n  {line}\n" in said
    shown = json.loads(rag("show", "shifted.html", file, "--json").out)
    assert line == f"shifted.html: {shown['warnings'][0]}"


def test_a_price_list_is_not_doubtful_and_columns_of_prose_are() -> None:
    prices = "| article | price |\n| --- | --- |\n" + "| blue polyester rope | 3.45 |\n" * 30
    assert measure(prices, [len(prices)], 0).warnings() == []
    line = "the receiving party shall keep all confidential"
    columns = f"| {line} | {line} |\n" * 30
    (said,) = measure(columns, [len(columns)], 0).warnings()  # all but the ends of the lines
    assert said == "99% of the characters are in tables of prose; columns may be mixed"
