"""Take screenshots of the page, the report and Dagster's pages over the sample corpus.

`python -m rag_pipeline_tests.testing.screenshots FOLDER` writes one PNG file per page, width and
colour scheme. The corpus is built once, in FOLDER/.work.
"""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import dagster as dg
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

from rag_pipeline import report
from rag_pipeline.assistant import open_assistant
from rag_pipeline.corpus import Corpus
from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.browser import BROWSER_MILLISECONDS, CHROMIUM
from rag_pipeline_tests.testing.dagster_projects import (
    dagster_ui,
    execute,
    write_project,
)

_CHECKOUT = Path(__file__).parents[2]
_ANSWERED = "How long does confidentiality last under the Halvorsk NDA?"
_ON_A_PAGE = "How much of an Okonjo-Reyes bonus hinges on how the company itself performs?"
_UNANSWERED = "Who won the cycling race around Lake Constance?"
_SHAPES: list[tuple[int, Literal["light", "dark"]]] = [
    (1280, "light"),
    (1280, "dark"),
    (390, "light"),
    (390, "dark"),
]

Visit = Callable[[Page], None]
"""Opens an address and does what the screenshot should show."""


def built(work: Path) -> tuple[Path, Path]:
    """Run the sample corpus through Dagster, unless that is done.

    Return the corpus file and the file of Dagster's definitions.
    """
    file, project, done = work / "sample.yaml", work / "tiny_definitions.py", work / "done"
    if done.exists():
        return file, project
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(_CHECKOUT / "data/documents", work / "documents")
    shutil.copy(_CHECKOUT / "data/queries.jsonl", work)
    component = yaml.safe_load((_CHECKOUT / "rag_pipeline/defs/sample/defs.yaml").read_text())
    own = {"documents": {"path": "documents"}, "queries": "queries.jsonl", "store": "store"}
    component["attributes"] |= own
    file.write_text(yaml.safe_dump(component, sort_keys=False))
    project = write_project(work, file)
    with dg.DagsterInstance.from_config(str(work / "home")) as instance:
        if not execute(file, instance, dg.RunRequest(job_name="sample__bring_up_to_date")):
            raise SystemExit("the run of the sample corpus failed")
    done.touch()
    return file, project


def pages(served: str, written: Path, ui: str, run_id: str) -> Mapping[str, Visit]:
    """Return the visits by the name of their screenshots."""
    location = f"{ui}/locations/tiny_definitions.py"

    def asks(question: str) -> Visit:
        def visit(page: Page) -> None:
            page.goto(served)
            page.fill("#question", question)
            page.press("#question", "Enter")
            page.wait_for_selector("#result:not([hidden])")
            page.wait_for_selector("mark, .sheet img")

        return visit

    def shows(address: str, text: str) -> Visit:
        def visit(page: Page) -> None:
            page.goto(address)
            page.get_by_text(text).first.wait_for()

        return visit

    def document(page: Page) -> None:
        asks(_ON_A_PAGE)(page)
        page.wait_for_selector(".sheet i")
        if page.viewport_size and page.viewport_size["width"] < 1000:
            page.locator("#document-title").evaluate("title => title.scrollIntoView()")

    return {
        "page-start": shows(served, "Questions to start with"),
        "page-answer": asks(_ANSWERED),
        "page-no-answer": asks(_UNANSWERED),
        "page-document": document,
        "report": shows(written.as_uri(), "Leaderboard"),
        "dagster-run": shows(f"{ui}/runs/{run_id}", "release"),
        "dagster-asset": shows(f"{ui}/assets/sample/chunks?view=overview", "chunks"),
        "dagster-lineage": shows(f"{location}/asset-groups/sample/lineage", "leaderboard"),
        "dagster-leaderboard": shows(
            f"{ui}/assets/sample/leaderboard?view=events", "AnswerPresence"
        ),
    }


def take(browser: Browser, visits: Mapping[str, Visit], folder: Path) -> None:
    """Write the screenshots. Dagster's pages are for wide screens."""
    for width, scheme in _SHAPES:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = context.new_page()
        page.set_default_timeout(BROWSER_MILLISECONDS)
        for name, visit in visits.items():
            if name.startswith("dagster") and width < 1000:
                continue
            visit(page)
            page.wait_for_load_state("networkidle")
            whole = name in ("page-answer", "page-no-answer")
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=whole)
        context.close()


def main(folder: Path) -> None:
    """Build the corpus, start the servers and take all screenshots."""
    work = folder.resolve() / ".work"
    file, project = built(work)
    corpus = Corpus.load(file)
    written = work / "report.html"
    written.write_text(report.render(report.collect(corpus.workspace)), encoding="utf-8")
    with dg.DagsterInstance.from_config(str(work / "home")) as instance:
        run_id = instance.get_runs(limit=1)[0].run_id
    with (
        app_server.serving(open_assistant([corpus])) as server,
        dagster_ui(work, project) as ui,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take(browser, pages(server.url, written, ui, run_id), folder)
        browser.close()
    sys.stdout.write(f"{len(list(folder.glob('*.png')))} screenshots in {folder}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
