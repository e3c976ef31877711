"""Names of a question; `test_confidence` tests names that no passage holds."""

import pytest

from rag_pipeline.answering.naming import capitalized, is_of_other_name, of_named
from rag_pipeline.datamodels import Document, ScoredChunk


def chunk(document_id: str, title: str, text: str = "It lasts for two years.") -> ScoredChunk:
    return ScoredChunk(
        f"{document_id}#0-{len(text)}", document_id, 0, len(text), text, 1.0, title=title
    )


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


@pytest.mark.parametrize(
    ("question", "is_other"),
    [
        ("When does the lease of the Marburg hall end?", True),
        ("When does the lease of the Fenwick hall end?", False),
        ("When does the lease of the Lindau hall end?", False),
        ("When does the lease of the Kassel hall end?", False),
    ],
)
def test_a_quote_may_be_of_another_name_than_the_one_that_is_asked_for(question, is_other):
    lease = chunk("a.md", "Fenwick lease", "The lease ends on 30 June 2031.")
    others = [lease, chunk("b.md", "Hours", "Marburg and Lindau open at 9.")]
    whole = Document(
        "a.md", "", "The lease ends on 30 June 2031. Lindau has its own.", title="Lease"
    )
    assert is_of_other_name(question, lease, others, lambda one: whole) == is_other


def _kept(question: str, *texts: str) -> list[int]:
    chunks = [chunk(f"{n}.md", "Report", text) for n, text in enumerate(texts)]
    kept = of_named(question, chunks, lambda chunk: None)
    return [chunks.index(one) for one in kept]


@pytest.mark.parametrize(
    ("question", "texts", "kept"),
    [
        ("When is G-SKLC due?", ["G-SKLB is due in May.", "G-SKLC is due in June."], [1]),
        ("When is G-SKLC due?", ["All are due in May.", "G-SKLC is due in June."], [0, 1]),
        ("What is the rent of hall 3?", ["Hall 2 costs £90.", "Hall 3 costs £80."], [1]),
        ("How long is pump P20 covered?", ["For 2 years.", "P30 is new.", "P20 is old."], [0, 2]),
        ("Compare hall 2 and hall 3.", ["Hall 2: £90.", "Hall 3: £80.", "Hall 4: £70."], [0, 1]),
        # None has the identifier, or it is no identifier.
        ("When is G-SKLX due?", ["G-SKLB is due in May.", "G-SKLC is due in June."], [0, 1]),
        ("What is paid after 3 days?", ["After 2 days, £90.", "After 3 days, £80."], [0, 1]),
        ("What was the rent in March 2025?", ["March 2024: £90.", "March 2025: £80."], [0, 1]),
    ],
)
def test_passages_about_another_thing_of_the_same_kind_are_left_out(
    question: str, texts: list[str], kept: list[int]
) -> None:
    assert _kept(question, *texts) == kept


def test_the_whole_document_tells_which_thing_a_passage_is_about() -> None:
    texts = {"b.md": "On G-SKLB.\n\nDue in May.", "c.md": "On G-SKLC.\n\nDue in June."}
    chunks = [chunk(name, "Report", text.partition("\n\n")[2]) for name, text in texts.items()]

    def document_of(one: ScoredChunk) -> Document:
        return Document(one.document_id, "", texts[one.document_id])

    assert of_named("When is G-SKLC due?", chunks, document_of) == chunks[1:]
