"""A corpus in Dagster's UI, in a real browser."""

import json
import urllib.request

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.pipeline.dry_run import plan_run
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.browser import BROWSER_MILLISECONDS, needs_chromium
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.dagster_projects import (
    dagster_ui,
    execute,
    write_project,
)

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="module")
def server(folder):
    """Return the address of a web server over a corpus that has been run."""
    corpus = write_corpus(folder)
    project = write_project(folder, corpus)
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        assert execute(corpus, instance, dg.RunRequest(job_name="tiny__bring_up_to_date"))
    with dagster_ui(folder, project) as address:
        yield address


@pytest.fixture
def page(browser, tmp_path, request):
    page = browser.new_page(viewport={"width": 1800, "height": 1100})
    page.set_default_timeout(BROWSER_MILLISECONDS)
    yield page
    page.screenshot(path=tmp_path / "page.png")
    page.close()


def test_what_the_page_is_told_is_stale_is_what_a_run_would_make(server, folder):
    file = folder / "tiny.yaml"
    good = file.read_text()
    file.write_text(good.replace("max_characters: 150", "max_characters: 120"))
    workspace = Workspace(load_config(file))
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        Observer(workspace).observe(dg.build_sensor_context(instance=instance))
    every = steps(workspace.config)
    parts = [
        f'a{number}: assetNodeOrError(assetKey: {{path: ["tiny", "{step.asset}"]}}) '
        + f"{{ ... on AssetNode {{ staleStatus{of_partition(step)} }} }}"
        for number, step in enumerate(every)
    ]
    asked = urllib.request.Request(
        f"{server}/graphql",
        json.dumps({"query": f"{{ {' '.join(parts)} }}"}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked) as answer:
        told = [found["staleStatus"] for found in json.load(answer)["data"].values()]
    stale = {found.step for found in plan_run(workspace) if found.runs}
    file.write_text(good)
    assert Step("chunks", "recursive_150") in stale
    assert told == ["STALE" if step in stale else "FRESH" for step in every]


def of_partition(step):
    return f'(partition: "{step.partition}")' if step.partition else ""


def test_the_leaderboard_is_a_table_of_configurations_and_metrics(server, page):
    page.goto(f"{server}/assets/tiny/leaderboard?view=events")
    table = page.locator("table table").first
    table.wait_for()
    header, *rows = table.locator("tr").all()
    assert header.locator("th, td").all_inner_texts() == [
        "configuration",
        "AnswerPresence@5",
        "95 %",
        "n",
        "missing",
        "vs baseline",
        "AnswerPresence@1",
        "AnswerPresence@10",
        "AnswerPresence@20",
        "nDCG@10",
        "RR@10",
        "R@5",
        "IoU@5",
        "DocumentPresence@5",
        "ContextRelevance",
        "chunks",
        "cost_usd",
    ]
    cells = [row.locator("td").all_inner_texts() for row in rows]
    assert {row[0] for row in cells} == {"default", "plain"}
    for row in cells:
        assert row[3:5] == ["4", "0"]
        assert row[8] == "1", "twenty chunks are more than there are"
