"""Questions without an answer, and questions that two documents answer together."""

import pytest

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document
from rag_pipeline.loading.queries import QueryRecord
from rag_pipeline.questions.certification import Certifier
from rag_pipeline.questions.generation import QuestionRow, make_questions

LEASE = """# Lease of Harrow Mill

The tenant shall provide a security deposit of USD 93,750 to the landlord.

Either party may terminate the lease by giving six (6) months written notice.

The landlord shall insure the building for a sum of USD 4,000,000 each year.
"""
LICENCE = """# Licence of Korrin Software

The licensee shall pay a royalty of EUR 3.20 for each robot shipped with the runtime.

Either party may terminate the licence by giving three (3) months written notice.

The licensee may copy the runtime for backups.
"""


def document(name: str, text: str) -> Document:
    title = text.splitlines()[0].removeprefix("# ")
    return Document(document_id=name, content_hash=name, text=text, title=title)


DOCUMENTS = [document("lease.md", LEASE), document("licence.md", LICENCE)]


@pytest.fixture(scope="module")
def made() -> list[QuestionRow]:
    return make_questions(DOCUMENTS, 0, Lexical(), several=2, unanswerable=8).rows


def test_what_nothing_answers_has_no_gold_and_says_so(made) -> None:
    rows = [row for row in made if "unanswerable" in row["tags"]]
    assert {row["tags"][1] for row in rows} == {"not_stated", "no_such_document"}
    for row in rows:
        record = QueryRecord.model_validate(row)
        assert (record.gold_spans, record.synthetic) == ((), True)
    asked = [row["query"] for row in rows if row["tags"][1] == "no_such_document"]
    # A name that no document has; "Harrow Mill" and "Korrin" are changed.
    assert not any(word in query for query in asked for word in ("Harrow", "Mill", "Korrin"))


def test_what_a_document_states_is_asked_of_the_other(made) -> None:
    asked = [row["query"] for row in made if "not_stated" in row["tags"]]
    of_licence = [q for q in asked if "Korrin" in q]
    of_lease = [q for q in asked if "Harrow" in q]
    assert of_licence or of_lease
    assert not any(word in q for q in of_licence for word in ("royalty", "robot", "backup"))
    assert not any(word in q for q in of_lease for word in ("deposit", "insure"))


def test_two_documents_answer_together(made) -> None:
    (row,) = [row for row in made if "several documents" in row["tags"]]
    assert {s["document_id"] for s in row["gold_spans"]} == {"lease.md", "licence.md"}
    assert set(row["answer"].split("; ")) == {"six (6) months", "three (3) months"}
    assert len(row["entities"]["TIME"]) == 2


@pytest.mark.parametrize(
    ("query", "document_id", "answered"),
    [
        ("How much is the security deposit of the tenant?", "lease.md", True),
        ("How much is the security deposit of the tenant?", "licence.md", False),
        ("How much is the royalty for each robot?", "licence.md", True),
        ("How much is the royalty for each robot?", "lease.md", False),
        ("How much written notice may either party terminate by?", "lease.md", True),
    ],
)
def test_whether_a_document_may_answer(query: str, document_id: str, answered: bool) -> None:
    with Certifier(DOCUMENTS, Lexical()) as certifier:
        assert (certifier.may_answer(query, document_id) is not None) is answered
