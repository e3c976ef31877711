"""Documents that a question's name rules out; `test_confidence` tests names that none holds."""

import pytest

from rag_pipeline.answering.naming import capitalized, documents_of_others
from rag_pipeline.datamodels import ScoredChunk


def chunk(document_id: str, title: str, text: str = "It lasts for two years.") -> ScoredChunk:
    return ScoredChunk(
        f"{document_id}#0-{len(text)}", document_id, 0, len(text), text, 1.0, title=title
    )


NORDHAVN = chunk("nordhavn.pdf", "Consulting Agreement with Nordhavn Shipping")
QUILLON = chunk("quillon.pdf", "Mutual Agreement with Quillon Robotics")
MAIL = chunk("mail.eml", "Re: meeting", "Nordhavn asked for a longer term.")


@pytest.mark.parametrize(
    ("question", "chunks", "others"),
    [
        ("How long does the term of Nordhavn last?", [NORDHAVN, QUILLON, MAIL], {"quillon.pdf"}),
        ("How long does the term last?", [NORDHAVN, QUILLON, MAIL], set()),
        # Both titles have the word.
        ("How long does the Consulting Agreement last?", [QUILLON, NORDHAVN], set()),
        # The best chunk is of another document: the name may stand in its text.
        ("How long does the term of Nordhavn last?", [MAIL, NORDHAVN, QUILLON], set()),
        ("How long does the term of Nordhavn last?", [], set()),
    ],
)
def test_a_name_in_a_title_rules_out_documents_without_it(
    question: str, chunks: list[ScoredChunk], others: set[str]
) -> None:
    assert documents_of_others(question, chunks) == others


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (
            "What does Halvorsk's NDA with Okonjo-Reyes say? Who signs?",
            ["Halvorsk", "Okonjo-Reyes"],
        ),
        ("Wie lange gilt die Vertraulichkeit der Vereinbarung?", []),
    ],
)
def test_names_are_told_by_their_capitals_but_in_german(question, names):
    assert capitalized(question) == names
