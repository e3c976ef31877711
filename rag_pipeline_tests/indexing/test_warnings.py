"""Warnings about chunks over the embedding's window, and about files that no search reads."""

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.indexing import refused_documents, window_warnings
from rag_pipeline.search.unsearched import not_searched
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index
from rag_pipeline_tests.testing.corpora import write_documents, write_file

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
    # 110 tokens in 1,760 characters, so each paragraph is a chunk.
    paragraphs = ["confidentiality " * 110] * 99
    (folder / "short.txt").write_text("\n\n".join(paragraphs))
    index(workspace, "recursive_150")
    assert window_warnings(workspace) == [], "1 of 100 chunks is no reason for a change"


def test_files_that_no_search_reads_are_named_by_their_words(tmp_path):
    write_documents(tmp_path / "documents", {"fees.txt": "Fees are due.", "tax_returns.xlsx": "x"})
    excluded = ["logs/web-shop.log"]
    file = write_file(tmp_path, queries=None, documents={"path": "documents", "exclude": excluded})
    workspace = Workspace(load_config(file))
    index(workspace, "recursive_150")
    unread = "not searched, because unreadable: tax_returns.xlsx"
    left_out = "not searched, because excluded: logs/web-shop.log"
    assert not_searched(workspace, "Who is the landlord?", is_found=False) == [unread, left_out]
    for query, told in (("Who is the landlord?", []), ("Who signs the tax return?", [unread])):
        assert not_searched(workspace, query, is_found=True) == told
    write_documents(tmp_path / "documents", {"a.xlsx": "x", "b.xlsx": "x"})
    index(workspace, "recursive_150")
    assert not_searched(workspace, "Who signs the tax return?", is_found=True) == [unread]
    assert not_searched(workspace, "Who is the landlord?", is_found=False) == [
        "not searched, because unreadable: 3 files",
        left_out,
    ]


def test_an_unreadable_version_tells_that_the_earlier_version_is_not_searched(tmp_path):
    write_documents(tmp_path / "documents", {"fees.md": "Fees are due.", "rent.md": "Rent is due."})
    workspace = Workspace(load_config(write_file(tmp_path, documents={"path": "documents"})))
    index(workspace, "recursive_150")
    (tmp_path / "documents/fees.md").write_bytes(b"\x00\x01\x02" * 99)
    index(workspace, "recursive_150")
    (refused,) = refused_documents(workspace)
    assert refused.startswith("fees.md: ")
    assert refused.endswith("; the earlier version is no longer searched")
