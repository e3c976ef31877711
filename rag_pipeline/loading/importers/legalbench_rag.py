"""Import LegalBench-RAG: `benchmarks/*.json` with snippets of the text files in `corpus/`.

Every file under `corpus/` becomes a document, and every test becomes a query.
"""

from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan
from rag_pipeline.loading.parsing import NonBlank, SourceRecord, parse_file, read_bytes


class _Snippet(SourceRecord):
    file_path: str
    span: tuple[int, int]
    answer: str | None = None


class _Test(SourceRecord):
    query: NonBlank
    snippets: list[_Snippet]
    tags: tuple[str, ...] = ()


class _Benchmark(SourceRecord):
    tests: list[_Test]


def read(source: Path) -> DataSet:
    """Read the folder with `benchmarks/` and `corpus/`. Tag each query with its benchmark."""
    corpus, benchmarks = source / "corpus", sorted((source / "benchmarks").glob("*.json"))
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such folder; expected the documents in it")
    if not benchmarks:
        raise InputError(f"{source / 'benchmarks'}: no *.json file; expected the benchmarks")
    dataset = DataSet()
    files = {p.relative_to(corpus).as_posix(): p for p in corpus.rglob("*") if p.is_file()}
    for name, path in sorted(files.items()):
        if any(part.startswith(".") for part in name.split("/")):
            dataset.skip(name, "a hidden file, not a document")
            continue
        try:
            text = read_bytes(path).decode()
        except UnicodeDecodeError as error:
            dataset.skip(name, f"not UTF-8: {error.reason} at byte {error.start}")
            continue
        dataset.documents[name] = text
    for path in benchmarks:
        for index, test in enumerate(parse_file(_Benchmark, path).tests):
            evidence = [GivenSpan(s.file_path, *s.span, s.answer) for s in test.snippets]
            query_id = f"legalbench-rag-{path.stem}-{index + 1:04d}"
            dataset.add_query(query_id, test.query, evidence, tags=(path.stem, *test.tags))
    return dataset
