"""Tokens of a bundle's chunks: 4 bytes for each id, and 2 for each vector of 16 dimensions."""

import pyarrow as pa
import pytest

from rag_pipeline.release.bundle_content import _check_vectors


def batch(ids: bytes, signs: bytes) -> pa.RecordBatch:
    vector = pa.array([[1.0] + 15 * [0.0]], pa.list_(pa.float32(), 16))
    columns = {"vector": vector, "token_ids": [ids], "token_vectors": [signs]}
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("ids", [b"", b"\1\0\0\0", b"\xff\xff\x0f\0"])
def test_whole_tokens_are_accepted(ids):
    _check_vectors(batch(ids, b"ab" * (len(ids) // 4)))


@pytest.mark.parametrize(
    ("ids", "signs", "said"),
    [
        (b"\1\0\0", b"ab", "damaged tokens"),
        (b"\1\0\0\0", b"a", "damaged tokens"),
        (b"\0\0\x10\0", b"ab", "unknown tokens"),
    ],
)
def test_torn_and_unknown_tokens_are_refused(ids, signs, said):
    with pytest.raises(ValueError, match=said):
        _check_vectors(batch(ids, signs))
