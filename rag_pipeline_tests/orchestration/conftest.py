from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline_tests.testing.corpora import copy_corpus, rule, write_corpus
from rag_pipeline_tests.testing.dagster_projects import ask, execute, named
from rag_pipeline_tests.testing.webhooks import VARIABLE, Webhook, listening

Requested = list[tuple[str, str | None]]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def built(tmp_path: Path, template: Path) -> Path:
    """Return the file of a corpus that is current: a copy of the module's `template`."""
    copy_corpus(template, tmp_path)
    return tmp_path / "tiny.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a corpus with two configurations, of which nothing is built."""
    configurations = [rule("one", "recursive_150"), rule("two", "markdown")]
    return write_corpus(tmp_path, configurations=configurations)


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """Return a webhook that the variable of alerts names."""
    with listening() as server:
        monkeypatch.setenv(VARIABLE, server.address)
        yield server


@pytest.fixture
def settle(instance: dg.DagsterInstance) -> Callable[[Path], Requested]:
    """Return a function that executes the sensor's requests until there are none."""

    def until_quiet(file: Path) -> Requested:
        asked: Requested = []
        for _ in range(20):
            requests, _reason = ask(file, instance)
            if not requests:
                return asked
            for request in requests:
                asked.append(named(request))
                execute(file, instance, request)
        raise AssertionError(f"the sensor never comes to rest: {asked}")

    return until_quiet
