"""Import ContractNLI: agreements, with a label and evidence spans for each hypothesis.

A query asks for the clauses of an agreement that support or contradict a hypothesis. Its gold spans
are the evidence, and its answer is the label (`choice`). Hypotheses without evidence are skipped.
"""

import itertools
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from pydantic import Field

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan
from rag_pipeline.loading.parsing import NonBlank, SourceRecord, parse_file


class _Annotation(SourceRecord):
    choice: Literal["Entailment", "Contradiction", "NotMentioned"]
    spans: list[int]


class _AnnotationSet(SourceRecord):
    annotations: dict[str, _Annotation]


class _Contract(SourceRecord):
    file_name: str
    text: NonBlank
    spans: list[tuple[int, int]]
    annotation_sets: list[_AnnotationSet] = Field(min_length=1)


class _Label(SourceRecord):
    hypothesis: NonBlank


class _Agreements(SourceRecord):
    documents: list[_Contract]
    labels: dict[str, _Label]


def read(source: Path) -> DataSet:
    """Read a JSON file or folder, each document once. Tag queries with hypothesis and label."""
    paths = sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not paths:
        raise InputError(f"{source}: no *.json file")
    dataset = DataSet()
    seen: set[str] = set()
    numbers = itertools.count(1)
    for path in paths:
        agreements = parse_file(_Agreements, path)
        for i, document in enumerate(agreements.documents):
            identity = document.model_dump_json()
            if identity in seen:
                continue
            seen.add(identity)
            where = f"{path}: documents[{i}].annotation_sets[0].annotations"
            document_id = dataset.add_document(document.file_name, document.text)
            for key, annotation in document.annotation_sets[0].annotations.items():
                labels = agreements.labels
                if key not in labels:
                    expected = f"{key!r} is not one of the labels: {', '.join(labels)}"
                    raise InputError(f"{where}.{key}: {expected}")
                query_id, choice = f"contractnli-{next(numbers):04d}", annotation.choice
                evidence = _evidence(document, document_id, annotation, f"{where}.{key}")
                if not evidence:
                    dataset.skip(query_id, f"no evidence: {key} is {choice} in {document_id!r}")
                    continue
                clauses = f'Which clauses of "{_title(document_id)}" support or contradict this'
                query = f"{clauses}: {labels[key].hypothesis}"
                dataset.add_query(query_id, query, evidence, answer=choice, tags=(key, choice))
    return dataset


def _evidence(
    document: _Contract, document_id: str, annotation: _Annotation, where: str
) -> list[GivenSpan]:
    if annotation.choice == "NotMentioned":
        return []
    for i, index in enumerate(annotation.spans):
        if not 0 <= index < len(document.spans):
            expected = f"expected an index of the document's {len(document.spans)} spans"
            raise InputError(f"{where}.spans[{i}]: {expected}, got {index}")
    return [GivenSpan(document_id, *document.spans[i]) for i in sorted(annotation.spans)]


def _title(document_id: str) -> str:
    return " ".join(unquote(document_id.removesuffix(".txt")).replace("_", " ").split())
