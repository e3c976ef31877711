import pytest

from rag_pipeline_tests.testing.search_index import index_of, random_chunks


@pytest.fixture(scope="module")
def rows():
    return random_chunks()


@pytest.fixture(scope="module")
def index(rows, tmp_path_factory):
    return index_of(tmp_path_factory.mktemp("index"), rows)
