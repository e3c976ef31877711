"""Write runs and gold documents in the formats of TREC, for trec_eval and other programs.

White space separates the fields of these formats, so white space in ids is percent-encoded.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.workspace import Workspace

_SPACE = re.compile(r"[\s%]+")


def write_trec_files(workspace: Workspace, folder: Path) -> list[Path]:
    """Write the graded gold documents and two runs of each configuration. Return the paths.

    One run ranks chunks. The other run ranks documents by their best chunks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(folder / "qrels.txt", _judgements(load_queries(workspace)))]
    for configuration in workspace.config.all_configurations:
        if RUN.read(workspace, configuration) is None:
            continue
        ranked = load_ranked(workspace, configuration)
        for kind in ("chunk", "document"):
            lines = _runs(ranked, f"{kind}_id", configuration)
            written.append(_write(folder / f"{configuration}.{kind}s.run", lines))
    return written


def _write(file: Path, lines: Iterable[str]) -> Path:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def _judgements(queries: Iterable[Query]) -> Iterable[str]:
    for query in queries:
        for document_id in query.answering_documents:
            grade = query.grades.get(document_id, 1)
            yield f"{_field(query.query_id)} 0 {_field(document_id)} {grade}"


def _runs(ranked: Mapping[str, Sequence[ScoredChunk]], item: str, tag: str) -> Iterable[str]:
    for query_id, chunks in ranked.items():
        best: dict[str, float] = {}
        for chunk in chunks:
            best.setdefault(getattr(chunk, item), chunk.score)
        for rank, (found, score) in enumerate(best.items(), 1):
            yield f"{_field(query_id)} Q0 {_field(found)} {rank} {score!r} {tag}"


def _field(text: str) -> str:
    return _SPACE.sub(lambda found: quote(found[0]), text)
