"""Accept, edit or reject synthetic questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rag_pipeline.config import CorpusConfig
from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.errors import InputError
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.queries import QueryRecord, resolve_queries
from rag_pipeline.questions import files
from rag_pipeline.questions.certification import Certifier
from rag_pipeline.workspace import Workspace

ReviewDecision = Literal["accept", "reject"]


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """A question with the texts of its gold spans."""

    record: QueryRecord
    gold: tuple[tuple[GoldSpan, str], ...]
    left: int
    """Number of waiting questions, including this one."""


def waiting(config: CorpusConfig) -> list[QueryRecord]:
    """Return the synthetic questions that nobody has reviewed."""
    records = files.read_questions(config.queries_path) if config.queries_path else []
    return [r for r in records if r.synthetic and not r.metadata.get("review")]


def next_waiting(workspace: Workspace, after: Sequence[str] = ()) -> WaitingQuestion | None:
    """Return the first waiting question whose id is not in `after`, or None if there is none."""
    records = waiting(workspace.config)
    record = next((r for r in records if r.query_id not in after), None)
    if record is None:
        return None
    ids = sorted({span.document_id for span in record.gold_spans})
    texts = {d.document_id: d.text for d in read_documents(workspace, ids)} if ids else {}
    queries, _ = resolve_queries([record], texts.get)
    gold = queries[0].gold_spans if queries else ()
    shown = tuple((g, texts[g.document_id][g.start : g.end]) for g in gold)
    return WaitingQuestion(record, shown, len(records))


def decide(
    config: CorpusConfig, record: QueryRecord, decision: ReviewDecision, words: str | None = None
) -> None:
    """Accept or reject a question. If it is accepted, `words` replace its wording.

    Raise InputError if the corpus names no queries file, or if the file lacks the question.
    """
    path: Path | None = config.queries_path
    if path is None:
        raise InputError(f"{config.where}: names no queries file")
    if decision == "reject":
        files.move(path, {record.query_id})
        return
    change: dict[str, Any] = {"metadata": {**record.metadata, "review": "accepted"}}
    if words and words.strip() != record.query:
        change["query"] = words.strip()
    files.change(path, record.query_id, change)


def problem_of_words(workspace: Workspace, found: WaitingQuestion, words: str) -> str | None:
    """Try a new wording of a question on all documents, and return its problem or None."""
    if not found.gold or words.strip() == found.record.query:
        return None
    documents = read_documents(workspace, sorted(workspace.documents().state()))
    with Certifier(documents, workspace.config.lexical) as certifier:
        return certifier.problem(words.strip(), found.gold[0][0])
