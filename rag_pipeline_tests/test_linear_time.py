"""Work grows in proportion to the text: count calls and measure time over growing inputs."""

import io
import json
import sys
import time
from functools import partial

import numpy as np
import pytest
from reportlab.pdfgen.canvas import Canvas

from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.support import judge
from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.fixed import FixedChunking
from rag_pipeline.chunking.markdown import MarkdownChunking
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.chunking.semantic import SemanticChunking
from rag_pipeline.chunking.windows import SentencesChunking
from rag_pipeline.contextualization.none import NoContext
from rag_pipeline.contextualization.structural import StructuralContext
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.imports import CHUNKINGS as CHUNKINGS_GROUP
from rag_pipeline.imports import CONTEXTUALIZERS, load_group
from rag_pipeline.loading.parsers import parse
from rag_pipeline.loading.text import front_matter, headings, markdown_title
from rag_pipeline_tests.testing.chunking import Embedding
from rag_pipeline_tests.testing.formats import docx_bytes, pptx_bytes, repacked, xlsx_bytes

RUNS = {
    "numbers": "1. a\n",
    "dashes": "- a\n",
    "fences": "```\n",
    "headings": "# a\n",
    "quotes": "> a\n",
    "table rows": "| a | b |\n",
    "underlined": "a\n===\n\n",
    "blank lines": "\n",
    "dots": ".",
    "spaced dots": ". ",
    "closing brackets": ".)",
    "blanks": " ",
    "one word": "ab",
    "Chinese": "合同。",
    "clauses": "1.1 Term. (a) yes; and (b) no.\n",
    "brackets": "[(",
    "definitions": '"Term" means any. ',
    "parties": "between (",
    "code": "class pub fn f(",
}
CHUNKINGS = {
    "recursive": RecursiveChunking(method="recursive"),
    "recursive by tokens": RecursiveChunking(method="recursive", max_tokens=100),
    "markdown": MarkdownChunking(method="markdown"),
    "sentences": SentencesChunking(method="sentences", overlap=100),
    "sentences by tokens": SentencesChunking(method="sentences", max_tokens=100, overlap=20),
    "semantic": SemanticChunking(method="semantic"),
    "fixed": FixedChunking(method="fixed", overlap=20),
}
SMALL = 2_000
"""Characters."""
TIMES = 4


def chunks_of(text, method):
    models = Embedding(lambda texts: np.ones((len(texts), 4), np.float32))
    return chunk(Document("a.md", "", text), method, models)


def contexts_of(text, contextualizer):
    spans = [(at, min(at + 500, len(text))) for at in range(0, len(text), 500)]
    chunks = [Chunk("a.md", start, end, text[start:end]) for start, end in spans]
    return contextualizer.contexts(Document("a.md", "", text), chunks, None)


def read_as_markdown(text, _):
    return front_matter(f"---\na: b\n---\n{text}"), markdown_title(text), list(headings(text))


def read_as_html(text, _):
    return parse("a.html", f"<p>{text}</p>".encode(), ".html", 10**9)


def read_as_mail(text, _):
    return parse("a.eml", f"From: a@b.c\nSubject: s\n\n{text}".encode(), ".eml", 10**9)


def read_as_notebook(text, _):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": line} for line in text.split("\n")]
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    return parse("a.ipynb", json.dumps(content).encode(), ".ipynb", 10**9)


def read_as_rtf(text, _):
    text = text.replace("\n", "\\par\n").encode("ascii", "replace").decode()
    return parse("a.rtf", f"{{\\rtf1\\ansi {text}}}".encode(), ".rtf", 10**9)


WORK = (
    {f"{name} chunks": (chunks_of, method) for name, method in CHUNKINGS.items()}
    | {
        "structural contexts": (contexts_of, StructuralContext(method="structural")),
        "no contexts": (contexts_of, NoContext(method="none")),
    }
    | {
        "reading Markdown": (read_as_markdown, None),
        "reading HTML": (read_as_html, None),
        "reading mail": (read_as_mail, None),
        "reading notebooks": (read_as_notebook, None),
        "reading RTF": (read_as_rtf, None),
    }
)


def calls(function, *arguments):
    """Return how many functions are called, of Python and of C."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def seconds(function, *arguments):
    """Return the processor's time."""
    started = time.process_time()
    function(*arguments)
    return time.process_time() - started


def held_to_linear_time(name, function):
    """Fail if a function's work grows faster than its argument, the length of a text."""
    few, many = calls(function, SMALL), calls(function, SMALL * TIMES)
    assert many <= TIMES * 1.2 * few + 500, f"{name}: {few} calls, {many} for {TIMES} times it"
    # Counting misses the work inside one call, such as a regular expression, so measure time too.
    # Quadratic work takes 64 times as long for 8 times the text.
    quick = max(seconds(function, SMALL), 0.002)
    for _ in range(3):
        slow = seconds(function, SMALL * 8)
        if slow <= 28 * quick:
            return
    pytest.fail(f"{name}: {quick:.4f} s, {slow:.4f} s for 8 times it")


def _of_runs(function, run, settings, size):
    return function(run * (size // len(run)) + "b", settings)


@pytest.mark.parametrize("work", WORK)
def test_work_is_linear_in_the_text(work):
    function, settings = WORK[work]
    function("warm up", settings)
    for name, run in RUNS.items():
        held_to_linear_time(name, partial(_of_runs, function, run, settings))


@pytest.mark.parametrize(
    "run", ["A", "A.", "A ", "A or ", "a", "1.", "which ", "all the ", '"', '"a', "( ", " "]
)
def test_a_question_is_read_in_linear_time(run):
    def read(size):
        return detect(run * (size // len(run)))

    read(100)
    held_to_linear_time(run, read)


@pytest.mark.parametrize(
    "run", ["before 5 days ", ", a", ", who a", "at most 5 a ", "läuft ", "not a ", "without a "]
)
def test_a_passage_is_judged_in_linear_time(run):
    statement = "A crew may work before 5 days without key {}."  # another one for each size
    read = lambda size: judge(run * (size // len(run)), statement.format(size), 0.5)  # noqa: E731
    read(100)
    held_to_linear_time(run, read)


@pytest.mark.parametrize(
    ("before", "run", "after"),
    [
        ("", "<i>\n" * 200 + "</i>\n" * 200, ""),
        ("", "<blockquote>a", ""),
        ("<ol>", "<li>a\n", "</ol>"),
        ("<table>", "<tr><td>a<td>b", ""),
        ("", "<b><p>a</b>", ""),
        ("<pre>a", " ", "b</pre>"),
    ],
)
def test_markup_is_read_in_linear_time(before, run, after):
    def read(size):
        count = size // len(run)
        after_each = after * (count if after.endswith("\n") else 1)
        return parse("a.html", f"{before}{run * count}{after_each}".encode(), ".html", 10**9)

    read(100)
    held_to_linear_time(run, read)


OFFICE = {
    ".docx": (
        docx_bytes(),
        "word/document",
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        "<w:body>{}</w:body></w:document>",
        '<w:p><w:pPr><w:pStyle w:val="ListNumber"/></w:pPr><w:r><w:t>a</w:t></w:r></w:p>',
    ),
    ".xlsx": (
        xlsx_bytes(),
        "xl/worksheets/sheet1",
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        "<sheetData>{}</sheetData></worksheet>",
        '<row><c t="inlineStr"><is><t>a</t></is></c></row>',
    ),
    ".pptx": (
        pptx_bytes(),
        "ppt/slides/slide1",
        '<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree>'
        "<p:nvGrpSpPr/><p:grpSpPr/>{}</p:spTree></p:cSld></p:sld>",
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="a"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr>'
        '<p:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="9" cy="9"/></a:xfrm>'
        '<a:prstGeom prst="rect"/></p:spPr>'
        "<p:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></p:txBody></p:sp>",
    ),
    ".odt": (
        repacked(docx_bytes()),
        "content",
        '<c xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
        "<office:body><office:text>{}</office:text></office:body></c>",
        "<text:p>a</text:p>",
    ),
}
"""A whole file by suffix, the part that has its content, and that content around a repeated run."""


@pytest.mark.parametrize("suffix", OFFICE)
def test_office_files_are_read_in_linear_time(suffix):
    whole, part, around, run = OFFICE[suffix]

    def files(count):
        return repacked(whole, **{part.replace("/", "__"): around.format(run * count).encode()})

    made = {SMALL * times: files(40 * times) for times in (1, TIMES, 8)}

    def read(size):
        return parse(f"a{suffix}", made[size], suffix, 10**9)

    assert read(SMALL).text.count("a") >= 40
    held_to_linear_time(suffix, read)


def _pages_of_prose(canvas, count):
    for page in range(count):
        for line in range(40):
            canvas.drawString(72, 740 - 16 * line, f"{page}.{line} The term is {page} years.")
        canvas.showPage()


def _lines_of_a_page(canvas, count):
    for line in range(20 * count):
        canvas.drawString(72, 14_000 - 12 * line, f"Line {line} of the page says yes.")


def _words_of_a_line(canvas, count):
    canvas.setFont("Helvetica", 1)
    canvas.drawString(10, 700, "word " * 100 * count)


def _rows_of_a_table(canvas, count):
    for row in range(20 * count):
        for column in range(5):
            canvas.drawString(40 + 100 * column, 14_000 - 14 * row, f"r{row}c{column}")
        canvas.line(30, 13_997 - 14 * row, 540, 13_997 - 14 * row)


def _strokes(canvas, count):
    canvas.drawString(72, 700, "A drawing with some text.")
    for number in range(100 * count):
        canvas.rect(10 + number * 13 % 400, 10 + number * 29 % 600, 40, 9)


@pytest.mark.parametrize(
    "draw", [_pages_of_prose, _lines_of_a_page, _words_of_a_line, _rows_of_a_table, _strokes]
)
def test_a_pdf_is_read_in_linear_time(draw):
    def file(count):
        buffer = io.BytesIO()
        canvas = Canvas(buffer, pagesize=(612, 14_400), invariant=1)
        draw(canvas, count)
        canvas.save()
        return buffer.getvalue()

    made = {SMALL * times: file(2 * times) for times in (1, TIMES, 8)}

    def read(size):
        return parse("a.pdf", made[size], ".pdf", 10**9)

    assert len(read(SMALL).text) > 20
    held_to_linear_time(draw.__name__, read)


def test_every_chunker_and_contextualizer_is_tested():
    built_in = {
        name
        for group in (CHUNKINGS_GROUP, CONTEXTUALIZERS)
        for name, kind in load_group(group).items()
        if kind.__module__.startswith("rag_pipeline.")
    }
    # One reads spans from a file; the other sends a document with each of its chunks.
    assert {s.method for _, s in WORK.values() if s} == built_in - {"given", "llm"}


def test_only_ten_thousand_characters_of_a_mail_field_take_time():
    def fields(count):
        mail = f"From: a@b.c\nTo: {'a@b.c, ' * count}\nSubject: {'(a) ' * count}\n\nYes."
        return parse("a.eml", mail.encode(), ".eml", 10**9)

    assert fields(100).text.count("a@b.c") == 101
    assert calls(fields, 20_000) < 1.1 * calls(fields, 3_000)
