"""The report of a corpus with hostile documents, read as text and rendered in a real browser."""

import re
from dataclasses import replace

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.datamodels import ContextJudgement, Judged
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES
from rag_pipeline.report import REPORT_FILE, collect, images, render
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.browser import accessibility_faults, needs_chromium
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    question,
    read_questions,
    write_corpus,
    write_documents,
    write_questions,
)

HOSTILE = "</blockquote></details><script>window.attacked = 1</script><img src=x onerror=attack()>"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """Return a corpus that has been run, with one query that nothing answers."""
    folder = tmp_path_factory.mktemp("report")
    every = {"chunking": "recursive_150", "embedding": "minilm", "retriever": "dense"}
    both = [{**every, "contextualizer": name} for name in ("structural", "none")]
    plain = "recursive_150.none.minilm.dense.none"
    file = write_corpus(folder, configurations=both, baseline=plain)
    write_documents(
        folder / "documents", {"attack.txt": f"Fees. {HOSTILE} " + "Fees are due. " * 9}
    )
    text = f"How expensive may a hotel be? {HOSTILE}"
    attack = question("<b>q5</b>", text, "nda/cedar.txt", "laws of Switzerland")
    write_questions(folder, [*read_questions(folder), {**attack, "tags": ["<i>tag</i>"]}])
    list(run(load_config(file)))
    return Workspace(load_config(file))


@pytest.fixture(scope="module")
def page(workspace):
    return render(collect(workspace))


def test_the_run_writes_the_report_into_the_store(workspace):
    written = workspace.store.read_bytes(REPORT_FILE).decode()
    assert written.startswith("<!doctype html>")
    assert "nothing yet" in written, "it is written before the first release"


def test_the_page_is_self_contained(page):
    assert not re.search(r"<(script|link|iframe|img)\b", page)
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", page)
    assert "@import" not in page
    assert "url(" not in page


def test_foreign_text_stays_text(page):
    assert "window.attacked" in page, "it is shown"
    assert "<img" not in page
    assert "<b>q5" not in page
    assert "<i>tag" not in page


def test_a_headline_says_how_good_the_release_is_and_names_can_be_read(page):
    said = "structural finds the answer among the first 5 chunks for 4 of 5 questions"
    more = r"\(80 %, 95 % interval \d+ to \d+\), as many as no contextualizer\. "
    answers = r"This counts found passages, not right answers\. "
    few = "5 questions are few: they can show no difference between configurations"
    assert re.search(rf'class="headline name">{said} {more}{answers}{few}', page)
    assert "release-000001 (structural)" in page
    assert ".minilm.dense" not in page


def test_context_health_is_that_of_the_answers(page):
    assert re.search(r"n = 5 queries, 0 missing\..*?relevance, of the attainable", page, re.S)


def test_missing_evaluations_are_named(workspace, monkeypatch):
    read = workspace.store.read_note
    monkeypatch.setattr(
        workspace.store, "read_note", lambda path: {} if "context_scores" in path else read(path)
    )
    page = render(collect(workspace))
    assert re.search(r"Entity F1 per type</h3>\s*<p>Not evaluated\.</p>", page)
    assert re.search(r"Context health</h3>\s*<p>Not evaluated\.</p>", page)


def test_answer_and_context_metrics_are_shown_with_n(workspace, monkeypatch):
    """The notes are those that entity_scores and context_scores write."""
    content = collect(workspace)
    counts = {"extracted": 4, "right": 3, "found": 2, "precision": 0.75, "recall": 0.4, "f1": 0.52}
    by_type = {"TIME": {**counts, "facts": 5}, "MONEY": {**counts, "facts": 0, "recall": None}}
    figures = {"queries": 4, "missing": 1, "average_relevance": 0.625, "usage_rate": None}
    notes = {
        ENTITY_SCORES.file(content.focus): {"summary": {"by_type": by_type}},
        CONTEXT_SCORES.file(content.focus): {"health": figures},
    }
    read = workspace.store.read_note
    monkeypatch.setattr(workspace.store, "read_note", lambda path: notes.get(path) or read(path))
    page = render(collect(workspace))
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in re.findall(r"<tr>.*?</tr>", page)]
    assert ["TIME", "75.0", "40.0", "52.0", "", "5"] in cells
    assert "MONEY" not in page, "no fact of that type is expected"
    assert "n = 4 queries, 1 missing" in page
    assert ["relevance, of the attainable", "62.5", ""] in cells
    assert ["usage, of the attainable", "–", ""] in cells


def test_reasons_of_a_judge_prices_and_earlier_releases_are_shown(workspace):
    """The trend is of releases; a search that costs something has a point on the Pareto chart."""
    content = collect(workspace)
    failing = content.failures[0]
    contexts = (Judged("low", False, "It speaks of hotels."),)
    told = replace(failing, judgement=ContextJudgement(contexts, overall="None of them helps."))
    (made,) = content.trend
    rows = tuple(replace(r, usd_per_query=0.002) for r in content.board.configurations)
    mean = made.metrics[content.metric]["mean"]
    page = render(
        replace(
            content,
            failures=[told],
            trend=[made, replace(made, release_id="r0")],
            board=replace(content.board, configurations=rows),
            doubtful=["scan.pdf: 2 of 3 pages are images that were not read"],
        )
    )
    assert "1 document with doubtful text" in page
    assert "scan.pdf: 2 of 3 pages are images that were not read" in page
    assert "judged low: It speaks of hotels." in page
    assert "None of them helps." in page
    assert re.search(rf"<th[^>]*>r0<br>.*?<td[^>]*>{100 * mean:.1f}<", page, re.S)
    assert re.search(r"Cost per query against quality.*?<td class=.number.>2</td>", page, re.S)
    assert re.search(r"Contexts of .*? by position.*?<th scope=.row.>1</th>", page, re.S)


def test_every_chart_states_its_n(page):
    figures = re.findall(r"<figure>.*?</figure>", page, re.S)
    drawn = [figure for figure in figures if "<svg" in figure]
    assert len(drawn) == 3, "curves, contextualizer, latency"
    for figure in drawn:
        assert "n = 5 queries" in figure
        assert "<title" in figure
        assert "<table" in figure, "the numbers, for who can't see the chart"


def test_the_images_are_files_of_their_own(workspace):
    from xml.etree import ElementTree

    found = images(collect(workspace))
    assert {"Answer Presence@k", "Answer Presence@k by contextualizer"} <= set(found)
    for svg in found.values():
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


@needs_chromium
def test_it_can_be_read_on_a_screen_and_a_phone_by_day_and_night(page, browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    said: list[str] = []
    papers = set()
    for width, scheme in ((1280, "light"), (390, "dark")):
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda r: said.append(r.url) if "file:" not in r.url else None)
        tab.goto(file.as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        tab.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels at {width}, {scheme}"
        assert tab.evaluate("window.attacked") is None
        rows = tab.locator("table.leaderboard tbody tr").all_inner_texts()
        assert len(rows) == 2
        assert all(re.search(r"\b5\b", row) for row in rows), "n is there on a phone, too"
        papers.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        sizes = tab.evaluate("[...document.querySelectorAll('figure svg')].map(s => s.clientWidth)")
        assert min(sizes) >= 280
        assert accessibility_faults(tab) == []
        tab.close()
    assert said == []
    assert papers == {"rgb(255, 255, 255)", "rgb(18, 22, 28)"}
