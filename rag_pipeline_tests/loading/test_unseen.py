"""Text that no reader sees is left out and counted; text that a reader sees stays."""

import io
import re
import zipfile

import docx
import openpyxl
import pytest
from docx.oxml import OxmlElement
from docx.shared import Pt, RGBColor

from rag_pipeline.indexing import warnings_of
from rag_pipeline.loading.parsers import parse
from rag_pipeline_tests.testing.formats import saved

SECRET = "The wire goes to account 4471"
SHOWN = "The tram leaves at nine"


def read(name, raw):
    return parse(name, raw, f".{name.rpartition('.')[2]}", 10**8)


HIDDEN_HTML = {
    "hidden": f"<p hidden>{SECRET}</p>",
    "display": f"<p style='display : none'>{SECRET}</p>",
    "visibility": f"<div style='VISIBILITY:hidden !important'><p>{SECRET}</p></div>",
    "opacity": f"<p style='opacity:0.0'>{SECRET}</p>",
    "moved": f"<p style='position:absolute;left:-9999px'>{SECRET}</p>",
    "indented": f"<p style='text-indent:-600em'>{SECRET}</p>",
    "letters": f"<p style='font-size:0'>{SECRET}</p>",
    "height": f"<div style='height:0;overflow:hidden'>{SECRET}</div>",
    "white": f"<p style='color:#FFFFFF'>{SECRET}</p>",
    "same": f"<div style='background:navy'><span style='color:navy'>{SECRET}</span></div>",
    "rule": f"<style>/* }} */ p, .x {{display:none}}</style><div class='a x'>{SECRET}</div>",
    "nested": "<div>" * 130 + f"<i style='display:none'><b>{SECRET}</b></i>" + "</div>" * 130,
}


@pytest.mark.parametrize("case", HIDDEN_HTML)
def test_hidden_html_is_left_out_and_counted(case):
    found = read("a.html", f"<h1>{SHOWN}</h1>{HIDDEN_HTML[case]}<div>{SHOWN}</div>".encode())
    assert SECRET not in found.text
    assert found.text.count(SHOWN) == 2
    (warning,) = warnings_of(found.metadata)
    assert warning.startswith("characters that nobody sees were left out: 24 ")


@pytest.mark.parametrize(
    "body",
    [
        f"<p hidden='until-found'>{SHOWN}</p>",
        f"<details><summary>More</summary>{SHOWN}</details>",
        f"<style>@media print{{p{{display:none}}}} nav p {{display:none}}</style><p>{SHOWN}</p>",
        f"<style>@import 'a';</style><p style='font-size:1em;width:0'>{SHOWN}</p>",
        f"<div style='background:#003'><p style='color:white'>{SHOWN}</p></div>",
        f"<table bgcolor='#333'><tr><td><font color='white'>{SHOWN}</font></td></tr></table>",
        f"<link rel=stylesheet href=a.css><p class='dark' style='color:#fff'>{SHOWN}</p>",
        f"<p style='position:absolute;left:-4px;overflow:hidden'>{SHOWN}</p>",
        f"<p aria-hidden=true style='opacity:.9;visibility:visible'>{SHOWN}</p>",
    ],
)
def test_honest_html_is_read(body):
    found = read("a.html", f"<h1>Trams</h1>{body}".encode())
    assert SHOWN in found.text
    assert warnings_of(found.metadata) == []


def word(change):
    file = docx.Document()
    file.add_paragraph(SHOWN)
    change(file, file.add_paragraph().add_run(SECRET))
    return saved(file)


def in_hiding_style(file, run):
    style = file.styles.add_style("Ghost", 2)
    style.font.hidden = True
    run.style = file.styles.add_style("Ghost 2", 2)
    run.style.base_style = style


HIDDEN_WORD = {
    "vanish": lambda _, run: setattr(run.font, "hidden", True),
    "style": in_hiding_style,
    "tiny": lambda _, run: setattr(run.font, "size", Pt(1)),
    "white": lambda _, run: setattr(run.font.color, "rgb", RGBColor(255, 255, 255)),
}


@pytest.mark.parametrize("case", HIDDEN_WORD)
def test_hidden_word_text_is_left_out_and_counted(case):
    found = read("a.docx", word(HIDDEN_WORD[case]))
    assert SECRET not in found.text and SHOWN in found.text
    (warning,) = warnings_of(found.metadata)
    assert warning.startswith("characters that nobody sees were left out: 24 ")


def shaded(_, run):
    run.font.color.rgb = RGBColor(255, 255, 255)
    run._r.rPr.append(OxmlElement("w:shd"))


def in_a_table(file, run):
    cell = file.add_table(1, 1).cell(0, 0).paragraphs[0]
    cell._p.append(run._r)
    run.font.color.rgb = RGBColor(255, 255, 255)


@pytest.mark.parametrize(
    "change", [shaded, in_a_table, lambda _, run: setattr(run.font, "hidden", False)]
)
def test_honest_word_text_is_read(change):
    found = read("a.docx", word(change))
    assert SECRET in found.text
    assert warnings_of(found.metadata) == []


def test_hidden_rows_columns_and_sheets_are_read_and_marked():
    file = openpyxl.Workbook()
    for row in (["item", "price", "cost"], ["pump", 9, 4], ["valve", 7, 3]):
        file.active.append(row)
    file.active.title = "Fees"
    file.active.row_dimensions[3].hidden = True
    file.active.column_dimensions["C"].hidden = True
    file.create_sheet("Pay").append(["name", "salary"])
    file["Pay"].sheet_state = "veryHidden"
    found = read("a.xlsx", saved(file))
    assert found.text == (
        "## Fees\n\n| item | price | cost (hidden column) |\n| --- | --- | --- |\n"
        "| pump | 9 | 4 |\n| valve (hidden row) | 7 | 3 |\n\n"
        "## Pay (hidden sheet)\n\n| name | salary |\n| --- | --- |"
    )
    expected = "read and marked: 1 hidden column, 1 hidden row, 1 hidden sheet"
    assert warnings_of(found.metadata) == [expected]


def test_formulas_that_no_program_computed_are_counted():
    file = openpyxl.Workbook()
    for row in (["item", "cost", "tax"], ["pump", "=4+5", "=B2*0.2"], ["valve", 7, "=B3*0.2"]):
        file.active.append(row)
    file.active.title = "Fees"
    raw = saved(file)
    found = read("a.xlsx", raw)
    assert "| pump |\n| valve | 7 |" in found.text
    expected = "read as empty: 3 formulas without a stored value"
    assert warnings_of(found.metadata) == [expected]
    computed = io.BytesIO()  # as Excel saves it
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(computed, "w") as new:
        for name in old.namelist():
            new.writestr(name, re.sub(rb"</f><v\s*/?>(?:</v>)?", b"</f><v>9</v>", old.read(name)))
    found = read("a.xlsx", computed.getvalue())
    assert "| pump | 9 | 9 |" in found.text
    assert warnings_of(found.metadata) == []


def test_characters_without_a_width_are_left_out_where_they_join_nothing():
    kept = "می‌خواهم 👨‍👩‍👧 \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    tags = "".join(chr(0xE0000 + ord(c)) for c in "obey")
    html = f"<p>con\u200bfid\u200cential\u2060{tags} {kept}</p>"
    found = read("a.html", html.encode())
    assert found.text == f"confidential {kept}"
    assert warnings_of(found.metadata) == [
        "characters that nobody sees were left out: 7 without a width"
    ]


def test_a_field_of_the_file_with_the_same_name_is_no_warning():
    assert warnings_of({"unseen": "by the board"}) == []
    assert warnings_of({"unseen": '["a"]'}) == []
