import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers import FORMATS, import_dataset
from rag_pipeline_tests.testing.small_sets import (
    CODE,
    FEE,
    LABELS,
    NDA,
    SMALL,
    TREC,
    contractnli,
    files,
    lines,
    refused,
    text_of,
    write,
)


def test_unknown_formats(tmp_path: Path) -> None:
    assert refused("squad", tmp_path, tmp_path / "out") == (
        "format: 'squad' is not one of: legalbench-rag, chroma-chunking, anthropic-contextual, "
        "contractnli, beir, trec"
    )


def test_a_grade_must_be_a_whole_number(tmp_path: Path) -> None:
    source = files(tmp_path / "in", {**TREC, "qrels.txt": "301 0 d2 1\n301 0 d2 high\n"})
    expected = "line 2: b'301 0 d2 high': expected a query, a document and a whole number"
    assert expected in refused("trec", source, tmp_path / "out")


@pytest.mark.parametrize("format", FORMATS)
def test_missing_sources(tmp_path: Path, format: str) -> None:
    for source in (tmp_path / "none", tmp_path / "x\0y", tmp_path):
        assert str(source) in refused(format, source, tmp_path / "out")
    write(tmp_path / "file", "not a folder")
    assert str(tmp_path / "file") in refused(format, tmp_path / "file", tmp_path / "out")


BAD_BENCHMARKS: list[tuple[Any, str]] = [
    ("{", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
    ("[" * 100_000, "Invalid JSON: recursion limit exceeded"),
    ({"tests": [FEE, 7]}, "tests[1]: Input should be an object, got 7"),
    (
        {"tests": [{"query": "?", "snippets": [{"file_path": "a", "span": [1, "2"]}]}]},
        "tests[0].snippets[0].span[1]: Input should be a valid integer, got '2'",
    ),
]
BAD_QUESTIONS: list[tuple[Any, str]] = [
    (
        "question,references,corpus_id\nWho?,[{},wiki\n",
        "row 1 (up to line 2): references: Invalid JSON",
    ),
    (
        'question,references,corpus_id\nWho?,"[{""content"": 1}]",wiki\n',
        "row 1 (up to line 2): references: [0].content: Input should be a valid string, got 1",
    ),
    (
        'question,references,corpus_id\n"Who?,[],wiki\n',
        "line 2: not valid CSV: unexpected end of data",
    ),
    (b"question\xff", "not UTF-8: invalid start byte at byte 8"),
]
BAD_DOCUMENTS: list[tuple[Any, str]] = [
    ([CODE, {**CODE, "doc_id": "d"}], "[1]: the chunk ('u1', 0) occurs twice"),
]
BAD_AGREEMENTS: list[tuple[Any, str]] = [
    (
        {"annotation_sets": [{"annotations": {"x": {"choice": "Entailment", "spans": []}}}]},
        ".annotation_sets[0].annotations.x: 'x' is not one of the labels: nda-1, nda-2",
    ),
    (
        {"spans": [[0, 3]]},
        ".annotation_sets[0].annotations.nda-2.spans[0]: expected an index of the document's "
        "1 spans, got 1",
    ),
]


def agreements(change: dict[str, Any]) -> dict[str, Any]:
    other = {**NDA, "id": 2, "file_name": "b", **change}
    return {"documents": [NDA, other], "labels": LABELS}


@pytest.mark.parametrize(
    ("format", "file", "content", "expected"),
    [
        *(("legalbench-rag", "benchmarks/cuad.json", *case) for case in BAD_BENCHMARKS),
        *(("chroma-chunking", "questions_df.csv", *case) for case in BAD_QUESTIONS),
        *(("anthropic-contextual", "codebase_chunks.json", *case) for case in BAD_DOCUMENTS),
        *(
            ("contractnli", "train.json", agreements(change), f"documents[1]{expected}")
            for change, expected in BAD_AGREEMENTS
        ),
    ],
)
def test_bad_files(tmp_path: Path, format: str, file: str, content: Any, expected: str) -> None:
    source = SMALL[format](tmp_path / "in")
    write(source / file, content)
    message = refused(format, source, tmp_path / "out")
    assert message.startswith(f"{source / file}: {expected}")


def test_agreement_spans_outside_the_text_are_skipped(tmp_path: Path) -> None:
    source = contractnli(tmp_path / "in", {**NDA, "spans": [[0, 18], [19, 999]]})
    report = import_dataset("contractnli", source, tmp_path / "out")
    assert report.queries == 1
    assert report.skipped == (
        "contractnli-0002: span 19-999 of 'Acme%20NDA_v1.pdf.txt': it is empty or outside the 30 "
        "characters",
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "trec"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_imported_or_refused(
    tmp_path: Path, format: str, data: st.DataObject
) -> None:
    """Replace one value, anywhere in the set's JSON, by another; nothing but InputError escapes."""
    source = SMALL[format](tmp_path / "in")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    if format == "chroma-chunking":
        value = json.dumps(data.draw(JSON_VALUES)).replace('"', '""')
        write(source / "questions_df.csv", f'question,references,corpus_id\n?,"{value}",wiki\n')
    else:
        path = data.draw(st.sampled_from(sorted(p for p in source.rglob("*.json*"))))
        first, _, others = path.read_bytes().partition(b"\n")
        changed = json.dumps(_replaced(json.loads(first), data))
        write(path, changed.encode() + b"\n" + others)
    try:
        report = import_dataset(format, source, tmp_path / "out")
    except InputError as error:
        assert str(error).startswith(str(source))
    else:
        for query in lines(tmp_path / "out/queries.jsonl"):
            for gold in query["gold_spans"] if format != "beir" else ():
                text = text_of(tmp_path / "out", gold["document_id"])
                assert 0 <= gold["start"] < gold["end"] <= len(text)
        assert report.documents


def _replaced(content: Any, data: st.DataObject) -> Any:
    keys = list(content) if isinstance(content, dict) else []
    keys = list(range(len(content))) if isinstance(content, list) else keys
    if not keys or data.draw(st.integers(0, 5)) == 0:
        return data.draw(JSON_VALUES)
    key = data.draw(st.sampled_from(keys))
    changed = content.copy()
    changed[key] = _replaced(content[key], data)
    return changed
