"""Import topics, judgements and documents in the formats of TREC.

The folder holds `topics*`, `qrels*` and `corpus/`. A topic is `<top>` with `<num>` and `<title>`,
`<topic number="1">` with `<query>`, or a line with an id, a tab and a text. A file of the corpus
has documents as `<DOC>` with `<DOCNO>`, or is one document, whose id is its path without extension.
"""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet
from rag_pipeline.loading.parsing import read_bytes, read_judgements, read_lines

_TOPIC = re.compile(
    r"(?is)<top>.*?<num>\s*(?:Number:)?\s*(?P<id>[^\s<]+)\s*<(?:.*?<)?"
    r"title>\s*(?:Topic:)?\s*(?P<text>[^<]+)|"
    r"<topic\s+number=[\"'](?P<number>[^\"']+)[\"'].*?<query>\s*(?P<query>[^<]+)"
)
_DOCUMENT = re.compile(r"<DOC>.*?<DOCNO>\s*(\S+?)\s*</DOCNO>(.*?)</DOC>", re.S | re.I)
_TAG = re.compile(r"</?\w[^<>]*>|<!--.*?-->", re.S)
_QRELS = (0, 2, 3)
"""Columns of topic, document and grade. Column 1, the iteration, is not used."""


def read(source: Path) -> DataSet:
    """Read the folder. Omit topics without judgements."""
    topics, qrels = (_only(source, name) for name in ("topics", "qrels"))
    corpus = source / "corpus"
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such folder; expected the documents in it")
    dataset = DataSet()
    names: dict[str, str] = {}
    for path in sorted(p for p in corpus.rglob("*") if p.is_file()):
        text = read_bytes(path).decode(errors="replace")
        whole = path.relative_to(corpus).with_suffix("").as_posix()
        for docno, body in _documents(text) or [(whole, text)]:
            if docno in names or not body.strip():
                dataset.skip(docno, "it occurs twice" if docno in names else "an empty document")
            else:
                names[docno] = dataset.add_document(docno, body)
    grades = read_judgements(qrels, names, _QRELS)
    for query_id, query in _topics(topics):
        if query_id in grades:
            dataset.add_judged(query_id, query, grades[query_id])
    return dataset


def _only(source: Path, name: str) -> Path:
    found = sorted(path for path in source.glob(f"{name}*") if path.is_file())
    if len(found) != 1:
        raise InputError(f"{source}: {len(found)} files {name}*; expected one")
    return found[0]


def _documents(text: str) -> list[tuple[str, str]]:
    found = ((docno, _TAG.sub("", body)) for docno, body in _DOCUMENT.findall(text))
    return [(docno, unescape(body).strip()) for docno, body in found]


def _topics(path: Path) -> Iterator[tuple[str, str]]:
    found = list(_TOPIC.finditer(read_bytes(path).decode(errors="replace")))
    for one in found:
        query = one["text"] or one["query"]
        yield one["id"] or one["number"], " ".join(unescape(query).split())
    if not found:
        for number, line in read_lines(path):
            query_id, tab, query = line.decode(errors="replace").partition("\t")
            if not tab or not query.strip():
                raise InputError(f"{path}: line {number}: expected an id, a tab and a text")
            yield query_id.strip(), query.strip()
