"""Which declared titles are titles."""

import pytest

from rag_pipeline.loading.pdf.headings import declared_title, without_marks


@pytest.mark.parametrize(
    "title",
    [
        "True", "untitled", "Microsoft Word - report final.doc", "paper_v3.tex", "", "1706.03762",
        "Document1", "PowerPoint Presentation", "NIPS_2017_camera", "scan0001", "  ", "x",
        "https://example.org/a", "main.dvi", "\ufffd\ufffd\ufffd text",
    ],
)  # fmt: skip
def test_file_names_and_placeholders_are_not_titles(title):
    assert declared_title(title) == ""


@pytest.mark.parametrize(
    "title",
    [
        "Attention and Its Uses",
        "Ünïcode",
        "LaTeX for Everyone",
        "河口観測",
        "Contract of Employment",
    ],
)
def test_a_title_is_kept(title):
    assert declared_title(f" {title}\n") == title


def test_a_title_has_no_footnote_marks_and_no_spaced_letters():
    assert without_marks("P h y M L 3.1 Manual ∗†") == "PhyML 3.1 Manual"
    assert without_marks("A s p a c e d title") == "Aspaced title"
    assert without_marks("R E P O R T *") == "REPORT"
    for kept in ("Plan A B C", "Plan A B C D", "Vitamins A B C D and K"):
        assert without_marks(kept) == kept
