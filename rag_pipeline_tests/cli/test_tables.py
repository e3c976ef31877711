from dataclasses import replace
from typing import Any

import pytest

from rag_pipeline.answering.intent import detect
from rag_pipeline.assistant.results import AssistedAnswer
from rag_pipeline.calls import CallCounts
from rag_pipeline.cli import console as consoles
from rag_pipeline.cli.passages import show_answer, show_passages
from rag_pipeline.cli.tables import show_leaderboard, show_releases
from rag_pipeline.client.records import Source, Step
from rag_pipeline.config import STAGES
from rag_pipeline.datamodels import Answer, ScoredChunk
from rag_pipeline.errors import InputError
from rag_pipeline.evaluation.intervals import Summary
from rag_pipeline.evaluation.leaderboard import Board, BoardRow, count_refusals, origin
from rag_pipeline.serving.local import with_excerpts

METRICS = ("AnswerPresence@1", "AnswerPresence@5", "AnswerPresence@10", "AnswerPresence@20")


def summary(mean: float | None, n: int = 8) -> Summary:
    low, high = (None, None) if mean is None else (mean - 0.125, mean + 0.125)
    return Summary(mean, n, 1, low, high)


def row(name: str, five: float | None, ten: float | None) -> BoardRow:
    metrics = {m: summary(0.5) for m in (*METRICS, "nDCG@10", "RR@10")}
    metrics |= {"AnswerPresence@5": summary(five), "nDCG@10": summary(ten)}
    parts = name.split(".") if name.count(".") == len(STAGES) - 1 else ["x"] * len(STAGES)
    variants: dict[str, Any] = dict(zip(STAGES, parts, strict=True))
    return BoardRow(
        name=name, **variants, chunks=1234, seconds=1.0, calls=CallCounts(), metrics=metrics
    )


BOARD = Board(
    digest="d",
    corpus="acts",
    sorted_by="AnswerPresence@5",
    queries_left_out=0,
    configurations=(row("first", 0.75, 0.25), row("second", 0.5, 0.5), row("none", None, None)),
)


FEW = replace(BOARD, synthetic=8, configurations=(replace(row("first", 0.75, 0.25), synthetic=8),))


def headline(synthetic: int, facts: Summary | None = None) -> str:
    one = replace(row("first", 0.75, 0.25), synthetic=synthetic)
    metrics = {**one.metrics, **({"EntityRecall": facts} if facts else {})}
    return replace(BOARD, configurations=(replace(one, metrics=metrics),)).headline("first")


def test_a_headline_tells_made_questions_and_answers() -> None:
    interval = "(75 %, 95 % interval 62 to 88)"
    found = f"first finds the answer among the first 5 chunks for 6 of 8 questions {interval}."
    for synthetic in (8, 7, 4):
        told = f"{origin(synthetic, 8, 0)}. {found} This counts found"
        assert headline(synthetic).startswith(told)
    assert headline(0).startswith(f"{found} This counts found passages, not right answers.")
    asked = "To measure with people's questions, one a line: rag questions import FILE."
    assert [asked in headline(n) for n in (8, 7, 4, 0)] == [True, True, False, False]
    assert [asked in replace(FEW, queries=n).headline("first") for n in (27, 28)] == [True, False]
    told = headline(0, summary(0.5, n=3))
    assert ". Its answers state 50 % of the expected facts (3 questions)." in told
    assert "not right answers" not in told


def test_refusals_are_counted_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    yes, no = Answer("x", answered=True), Answer("x", answered=False)
    made = {"a": no, "b": yes, "c": no, "d": yes, "e": None, "f": no, "g": yes}
    found = count_refusals(made, {"a", "b", "c", "e"})
    assert found == {"without": (2, 3), "others": (1, 3)}
    one = replace(row("first", 0.75, 0.25), refusals=found)
    told = "Refused: 2 of 3 questions without an answer, 1 of 3 others."
    board = replace(BOARD, configurations=(one,))
    assert f" {told}" in board.headline("first")
    show_leaderboard(board)
    assert f"first: {told}" in " ".join(capsys.readouterr().out.split())
    assert replace(one, refusals=count_refusals(made, ())).refused == ""


def test_most_questions_made_is_a_caveat() -> None:
    easier = (
        "7 of 8 questions were made from the documents and are easier than people's (on the "
        "sample, 59 to 100 % are found, not 44 to 77 %)"
    )
    assert [origin(n, 8, 1) for n in (7, 8)] == [easier, easier.replace("7 of", "8 of")]
    assert origin(7, 8, 0) == f"{easier}; none tests a refusal (--unanswerable makes some)"
    mixed = "4 of 8 questions were made from the documents; figures mix both kinds"
    assert [origin(n, 8, 0) for n in (4, 0)] == [mixed, ""]


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda columns: monkeypatch.setattr(consoles.console, "_width", columns)


def test_sorting_by_a_metric_leaves_the_unmeasured_last() -> None:
    board = BOARD.sorted_on("nDCG@10")
    assert board.names() == ["second", "first", "none"]
    assert board.sorted_by == "nDCG@10"
    with pytest.raises(InputError, match="--sort 'MAP' is not one of: AnswerPresence@1, "):
        BOARD.sorted_on("MAP")


def test_the_leaderboard_shows_means_intervals_and_counts(width: Any, capsys: Any) -> None:
    width(200)
    show_leaderboard(BOARD)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "acts: configurations by AnswerPresence@5, in percent"
    assert lines[2].split() == [
        *("configuration", "AP@5", "95", "%", "AP@1", "AP@10", "AP@20", "RR@10", "nDCG@10"),
        *("n", "missing", "chunks"),
    ]
    cells = ["75.0", "62–88", "50.0", "50.0", "50.0", "50.0", "25.0", "8", "1", "1,234"]
    assert lines[4].split() == ["first", *cells]
    assert lines[6].split()[:3] == ["none", "–", "–"]


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_the_leaderboard_fits(width: Any, capsys: Any, columns: int) -> None:
    width(columns)
    long = "semantic_2_0.structural.minilm.hybrid.none"
    show_leaderboard(replace(BOARD, configurations=(row(long, 0.75, 0.25),)))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= columns
    assert "75.0" in out
    assert "missing" in out
    assert all(part in out for part in long.split("."))


def test_names_leave_out_the_parts_that_all_share(width: Any, capsys: Any) -> None:
    width(80)
    names = ("semantic_2_0.structural.minilm.hybrid.none", "semantic_2_0.none.minilm.dense.none")
    rows = tuple(row(name, 0.75, 0.25) for name in (*names, "default"))
    show_leaderboard(replace(BOARD, configurations=rows))
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines()]
    assert any(line.startswith("structural · hybrid   ") for line in lines)
    assert any(line.startswith("no contextualizer · dense   ") for line in lines)
    assert any(line.startswith("default   ") for line in lines)
    assert f"short for {names[0]}" in " ".join(out.split())


def test_left_out_queries_are_said(width: Any, capsys: Any) -> None:
    width(200)
    show_leaderboard(replace(BOARD, queries_left_out=3, configurations=()))
    out = capsys.readouterr().out
    assert "3 queries are left out" in out
    assert "no configuration has been evaluated yet" in out


def test_a_chunk_is_shown_with_its_source_and_cut(width: Any, capsys: Any) -> None:
    width(200)
    chunk = ScoredChunk("d#3-9", "d/[x].txt", 3, 9, "word \n" * 99, 0.5, title="A [b] title")
    show_passages(with_excerpts([chunk], "", lambda chunks: [None for _ in chunks]))
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert first == "1. d/[x].txt[3:361]  0.500", "60 words: 59 x 6 + 4 characters"
    assert second == "   A [b] title"
    assert third.startswith("   word word")
    assert third.endswith("…")
    assert len(third) == 3 + 300
    titled = replace(chunk, text="# A [b] title\nAnd more.")
    show_passages(with_excerpts([titled], "", lambda chunks: [None for _ in chunks]))
    assert capsys.readouterr().out.splitlines()[1] == "   A [b] title: And more."


def test_nothing_to_show(capsys: Any) -> None:
    show_passages([])
    show_releases([], "")
    assert capsys.readouterr().out == "nothing found\nno releases yet\n"


def test_an_answer_shows_its_confidence_in_words_or_the_nearest_passages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    passages = tuple(
        ScoredChunk(f"{n}.md#0-4", f"{n}.md", 0, 4, f"text {n}", 1.0 - n / 10) for n in range(5)
    )
    made = AssistedAnswer(
        query="Which?", text="“| **Tow** | | £90 |” [1]", answered=True,
        intent=detect("Which?"), sources=(), documents=(), passages=passages, confidence=0.95,
    )  # fmt: skip
    show_answer(made, trace=False)
    said = capsys.readouterr().out
    assert said.startswith("“Tow · £90” [1]\n")
    assert "Confidence: high (0.95)" in said
    assert "0.md" not in said
    for confidence, word in ((0.89, "medium"), (0.6, "medium"), (0.59, "low")):
        show_answer(replace(made, confidence=confidence), trace=False)
        assert f"Confidence: {word}" in capsys.readouterr().out
    show_answer(replace(made, query="Wie hoch ist der Preis dafür?"), trace=False)
    assert "Sicherheit: hoch (0.95)\n" in capsys.readouterr().out
    detail = {"documents": (), "kept": True, "share": 0.12345, "by": {"a": None}}
    step = Step(name="retrieve", seconds=0.1, detail=detail, began=0)
    show_answer(replace(made, trace=(step,)), trace=True)
    told = "retrieve (100 ms) documents: none, kept: yes, share: 0.123, by: a: none\n"
    assert told in capsys.readouterr().out
    show_answer(replace(made, answered=False, confidence=0.01), trace=False)
    said = capsys.readouterr().out
    assert "Confidence that the documents answer it: low (0.01)\n" in said
    assert [f"{n}.md" in said for n in range(5)] == [True, True, True, False, False]


def test_an_answer_shows_tables_without_bars_and_each_document_once(
    width: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    width(80)
    sources = tuple(
        Source(
            number=number, corpus="a", document_id=name, content_hash="", chunk_id="", start=start,
            end=9, text="", verified=True, supports=supports, origin=None,
            place={"label": "page 1"} if name == "b.pdf" else None, copies=(),
        )
        for number, name, start, supports in (
            (1, "a.md", 0, True), (2, "b.pdf", 5, True), (3, "b.pdf", 7, True),
            (4, "a.md", 3, True), (5, "a.md", 0, True), (6, "a.md", 0, False),
        )
    )  # fmt: skip
    made = AssistedAnswer(
        query="Which?", answered=True, intent=detect("Which?"), documents=(), passages=(),
        confidence=None, sources=sources, doubted=("No fee.",),
        text="Two say it:\n| document | what it says |\n| --- | --- |\n"
        "| a.md | “\\| Tow \\| £90 \\|” [1] |\n| b.pdf | No fee. [2] |\n\n"
        "| a | b | c |\n|:--|--:|---|\n| x | y | z |",
    )  # fmt: skip
    show_answer(made, trace=False)
    assert capsys.readouterr().out.splitlines() == [
        "Two say it:",
        "a.md",
        "   “Tow · £90” [1]",
        "b.pdf",
        "   No fee. (not supported) [2]",
        "",
        "a",
        "   b",
        "   c",
        "x",
        "   y",
        "   z",
        "",
        "[1] [5] a.md[0:9] [4] [3:9]",
        "[2] [3] b.pdf[page 1]",
        "[6] a.md[0:9] (does not support the sentence)",
    ]
