"""Import a BEIR data set: `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv`.

Gold consists of whole documents with grades. Source: Thakur et al., BEIR: A Heterogeneous Benchmark
for Zero-shot Evaluation of Information Retrieval Models, NeurIPS 2021.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet
from rag_pipeline.loading.parsing import NonBlank, SourceRecord, parse, read_judgements, read_lines

_SPLITS = ("test", "dev", "train")


class _Text(SourceRecord):
    id: NonBlank = Field(alias="_id")
    title: str | None = None
    text: str


def read(source: Path) -> DataSet:
    """Read the folder. Omit queries without judgements in `test`, else `dev`, or else `train`."""
    judged = [path for split in _SPLITS if (path := source / "qrels" / f"{split}.tsv").is_file()]
    if not judged:
        raise InputError(f"{source / 'qrels'}: no test.tsv, dev.tsv or train.tsv")
    dataset = DataSet()
    names: dict[str, str] = {}
    for one in _texts(source / "corpus.jsonl"):
        text = f"{one.title}\n\n{one.text}" if one.title else one.text
        if text.strip():
            names[one.id] = dataset.add_document(one.id, text)
        else:
            dataset.skip(one.id, "an empty document")
    grades = read_judgements(judged[0], names, columns=(0, 1, 2))
    for one in _texts(source / "queries.jsonl"):
        if one.id in grades:
            dataset.add_judged(one.id, one.text, grades[one.id])
    return dataset


def _texts(path: Path) -> Iterator[_Text]:
    for number, line in read_lines(path):
        yield parse(_Text, line, f"{path}: line {number}")
