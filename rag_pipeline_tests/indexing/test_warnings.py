"""Warnings about chunks over the embedding's window."""

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.indexing import window_warnings
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index
from rag_pipeline_tests.testing.corpora import write_file

# A word of the model's vocabulary each: 400 tokens in 2,000 characters.
LONG = "rent " * 400


@pytest.mark.parametrize(
    ("chunking", "expected"),
    [
        (
            {"method": "recursive", "max_characters": 2000},
            [
                "recursive_150: 1 of 2 sampled chunks have more than the 254 tokens that minilm "
                "reads; the vectors omit the rest. Set max_tokens: 254 in "
                "chunkings.recursive_150"
            ],
        ),
        ({"method": "recursive", "max_characters": 500}, []),
        ({"method": "recursive", "max_tokens": 254}, []),
    ],
)
def test_chunks_longer_than_the_window_are_reported(tmp_path, chunking, expected):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "long.txt").write_text(LONG.strip())
    (folder / "short.txt").write_text("Fees are due in March.")
    file = write_file(
        tmp_path,
        queries=None,
        documents={"path": "documents"},
        chunkings={"recursive_150": chunking},
    )
    workspace = Workspace(load_config(file))
    assert window_warnings(workspace) == [], "nothing is chunked yet"
    index(workspace, "recursive_150")
    assert window_warnings(workspace) == expected
