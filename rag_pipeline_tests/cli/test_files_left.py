"""What commands leave behind: nothing in the working folder that was not asked for."""

from pathlib import Path

import pytest

from rag_pipeline_tests.testing.command_line import Outcome, rag, said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["plan"],
        ["run", "--quiet"],
        ["search", "hotel"],
        ["ask", "How expensive may a hotel be?"],
        ["leaderboard"],
        ["costs"],
        ["compare", "default", "plain"],
        ["explain", "q1"],
        ["gate"],
        ["releases"],
        ["doctor"],
        ["gc", "--dry-run"],
        ["expansion", "list"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_working_folder_stays_empty(
    released: tuple[Path, Outcome], here: Path, arguments: list[str]
) -> None:
    corpus = [] if arguments == ["--version"] else [str(released[0])]
    said(*arguments, *corpus)
    assert list(here.iterdir()) == []


def test_a_report_is_written_where_it_is_said(released: tuple[Path, Outcome], here: Path) -> None:
    assert rag("report", released[0]).out == "wrote tiny.html\n"
    assert [path.name for path in here.iterdir()] == ["tiny.html"]
