"""Checks of rows that another process replaces meanwhile."""

import time

import pytest

from rag_pipeline import indexing
from rag_pipeline.orchestration import checks
from rag_pipeline.orchestration.verdicts import passed
from rag_pipeline.pipeline.making import make
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.store import Table

STEP = Step("chunks", "recursive_150")


@pytest.fixture
def built(workspace):
    """Return a workspace with chunks."""
    indexing.update_documents(workspace)
    make(workspace, STEP)
    return workspace


def judge(workspace):
    (check,) = STEP.row.checks
    return checks.judge(workspace, STEP, check)


def test_rows_that_another_process_has_deleted_and_then_adds_are_waited_for(built, monkeypatch):
    table = built.chunks("recursive_150")
    rows = table.open().to_arrow()
    table.drop(["nda/acme.txt"])
    table.drop(["nda/cedar.txt"])
    waits = []

    def add(seconds):
        waits.append(seconds)
        name = ["nda/acme.txt", "nda/cedar.txt"][len(waits) - 1]
        own = [one == name for one in rows.column("document_id").to_pylist()]
        Table.replace(table, [], rows.filter(own).to_batches())

    monkeypatch.setattr(time, "sleep", add)
    assert judge(built).passed
    assert len(waits) == 2
    assert passed(built, STEP)


def test_rows_that_nobody_adds_are_missing(built, monkeypatch):
    built.chunks("recursive_150").drop(["nda/acme.txt"])
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert not judge(built).passed
    assert len(waits) == 1
    assert not passed(built, STEP)
