from pathlib import Path

import pytest

from rag_pipeline import Corpus
from rag_pipeline_tests.testing.corpora import copy_corpus, write_documents
from rag_pipeline_tests.testing.expansion import OUTSIDE, Expanded


@pytest.fixture
def expanded(released: Corpus, tmp_path: Path) -> Expanded:
    folder = tmp_path / "corpus"
    copy_corpus(released.config.path("."), folder)
    write_documents(tmp_path / "outside", OUTSIDE)
    return Expanded(Corpus.load(folder / "tiny.yaml"), tmp_path / "outside")
