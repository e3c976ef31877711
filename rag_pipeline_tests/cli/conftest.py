import os
from pathlib import Path

import pytest

from rag_pipeline_tests.testing.command_line import Outcome, rag
from rag_pipeline_tests.testing.corpora import copy_corpus, write_corpus


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Return the file of a corpus after a run, and the run's outcome; tests change neither."""
    os.environ.pop("DAGSTER_HOME", None)
    folder = tmp_path_factory.mktemp("released")
    file = write_corpus(folder)
    return file, rag("run", file, "--json", folder / "out.json")


@pytest.fixture
def built_file(released: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """Return the file of a copy of that corpus, to be changed."""
    copy_corpus(released[0].parent, tmp_path)
    return tmp_path / released[0].name


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
