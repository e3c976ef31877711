"""Find names in texts, and rows that a sheet lacks."""

from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.tables import (
    other_sheets,
    tables_of,
)
from rag_pipeline.datamodels import Document


def lacking(question: str, document: Document) -> frozenset[str]:
    """Return the words by which other sheets than the named one name a row that it lacks, or none.

    Question: "What does a gravel bike cost in Ulm?". Only the sheet `Lindau` has a gravel bike.
    """
    others = other_sheets(question, document)
    heads = [table.head.cells for table in others if table.head]
    alike = [t for t in tables_of(document) if t.head and t.head.cells in heads]
    names = [(t in others, row.cells[0]) for t in alike for row in t.rows]
    words = Words(question, [name for _, name in names])
    held = [words.in_text(name) for is_other, name in names if not is_other]
    said = (words.in_text(name) for is_other, name in names if is_other)
    return max((s for s in said if not any(s <= own for own in held)), key=len, default=frozenset())


def has_words(text: str, side: str) -> bool:
    """Return whether a text has all words of a name."""
    words = Words(side, [text])
    return bool(words.asked) and words.in_text(text) == words.asked
