"""A sentence that changes the quoted one comes first; a document that is amended is named."""

import pytest

from rag_pipeline.answering.amendments import Quoted, change_of
from rag_pipeline.datamodels import ScoredChunk


def _chunk(document: str, text: str, title: str = "", context: str = "") -> ScoredChunk:
    chunk_id = f"{document}#0-{len(text)}"
    return ScoredChunk(chunk_id, document, 0, len(text), text, 1.0, context, title)


def _sentence(chunk: ScoredChunk, text: str) -> Quoted:
    return chunk, chunk.text.index(text), text


LEASE = _chunk(
    "Mietvertrag Halle.pdf",
    "## § 3 Miete\n\nDie Miete beträgt 660 Euro.\n\n## § 4 Kaution\n\nEs gibt keine.",
)
ADDENDUM = _chunk(
    "Nachtrag 1 Mietvertrag Halle.docx",
    "Vom 18. November 2025.\nIn § 3 wird die Miete auf 690 Euro gesetzt. Die Kosten sinken.\n"
    "In Ziffer 6 entfällt Satz 2.",
    title="Nachtrag Nr. 1 zum Mietvertrag Halle",
)
RENT = _sentence(LEASE, "Die Miete beträgt 660 Euro.")


def test_the_sentence_that_names_the_section_of_the_quoted_one_changes_it() -> None:
    others = [
        _sentence(ADDENDUM, "In Ziffer 6 entfällt Satz 2."),
        _sentence(ADDENDUM, "In § 3 wird die Miete auf 690 Euro gesetzt."),
    ]

    assert change_of("Wie hoch ist die Miete?", [RENT, *others], [LEASE, ADDENDUM]) == 2


def test_the_section_may_be_named_before_in_the_paragraph() -> None:
    others = [_sentence(ADDENDUM, "Die Kosten sinken.")]

    assert change_of("Wie hoch ist die Miete?", [RENT, *others], [LEASE, ADDENDUM]) == 1


def test_the_section_of_a_chunk_within_it_is_in_the_context() -> None:
    rest = _chunk(LEASE.document_id, RENT[2], context="Mietvertrag | Halle | 3. Miete")
    change = _sentence(ADDENDUM, "In § 3 wird die Miete auf 690 Euro gesetzt.")

    assert change_of("Wie hoch?", [_sentence(rest, RENT[2]), change], [rest, ADDENDUM]) == 1


def test_a_repeated_value_shows_the_change_where_sections_have_no_numbers() -> None:
    supply = _chunk("Supply agreement.txt", "Invoices of 2026 are payable within 45 days.")
    change = _chunk(
        "Amendment 2 Supply agreement.txt",
        "Signed in 2026. The period of 45 days is reduced to 30 days.",
    )
    quoted = _sentence(supply, supply.text)
    signed = _sentence(change, "Signed in 2026.")
    reduced = _sentence(change, "The period of 45 days is reduced to 30 days.")

    assert change_of("When is it due?", [quoted, signed, reduced], [supply, change]) == 2


@pytest.mark.parametrize(
    ("question", "section", "amending"),
    [
        ("Wie hoch war die ursprüngliche Miete?", "In § 3", "Nachtrag Mietvertrag Halle.docx"),
        ("Wie hoch ist die Miete?", "In § 5", "Nachtrag Mietvertrag Halle.docx"),
        ("Wie hoch ist die Miete?", "In § 3", "Nachtrag Kaufvertrag Garten.docx"),
    ],
    ids=["asks for the old text", "another section", "amends another document"],
)
def test_other_sentences_change_nothing(question: str, section: str, amending: str) -> None:
    chunk = _chunk(amending, f"{section} wird die Miete auf 690 Euro gesetzt.")

    assert change_of(question, [RENT, _sentence(chunk, chunk.text)], [LEASE, chunk]) is None


@pytest.mark.parametrize(
    ("first", "second", "changes"),
    [
        (
            "The summer party is on Friday 4 July 2025 at the lake.",
            "Because of the closure the summer party moves from 4 July to Friday 11 July 2025.",
            True,
        ),
        (
            "Die Lieferfrist beträgt 45 Tage.",
            "Die Lieferfrist beträgt ab Mai 30 Tage statt der bisherigen 45 Tage.",
            True,
        ),
        ("La livraison prend 10 jours.", "La livraison est reportée de 10 jours à 12 jours.", True),
        (
            "The lift is not used when the wind exceeds 10 knots.",
            "The limit of wind for the lift was 10 knots, is now 8 knots.",
            True,
        ),
        (
            "The fête is on Saturday 14 June.",
            "The fête has a new date. Was: Saturday 14 June. Is now: Sunday 22 June.",
            True,
        ),
        ("| Oak | Dogs | £27.00 | £31.50 |", "The rate for Oak was £31.50, is now £33.00.", True),
        ("Boats keep to 5 knots.", "For boats 3 knots apply; until now 5 knots did.", True),
        ("Ein Kranhub kostet 120 €.", "Ein Kranhub steigt von 120 Euro auf 135 Euro.", True),
        ("Le levain prend 18 œufs.", "1. Levain : 16 oeufs et non plus 18, dès mai.", True),
        ("Le pain lève 45 minutes.", "Le pain ne lève plus 45 mais 30 minutes.", True),
        ("The oven holds 18 loaves.", "The oven holds 16 loaves, no longer 18.", True),
        ("Der Ofen fasst 18 Brote.", "Der Ofen fasst nicht mehr 18, sondern 16 Brote.", True),
        ("Dough rises for 45 minutes.", "The rise of dough is cut from 45 to 30 minutes.", True),
        ("Dough rises for 45 minutes.", "The dough rises 30 minutes instead of 40.", False),
        ("Le pain lève 45 minutes.", "Le pain ne lève pas 45 minutes non plus.", False),
        ("The rent is £4,200.", "The rent was £4,200 and the deposit was £900.", False),
        ("The party is on 28 June.", "The party is postponed from 28 June to 5 July.", True),
        ("The sale is on 4 July.", "The sale of the rest runs from 4 July to 11 July.", False),
        ("The party is on 4 July.", "The audit moves from 4 July to 11 July.", False),
        ("The party is on 5 July.", "The party moves from 4 July to 11 July.", False),
    ],
)
def test_another_document_may_give_the_quoted_amount_as_the_former_one(
    first: str, second: str, changes: bool
) -> None:
    old, new = _chunk("mail/1.eml", first), _chunk("mail/2.eml", second)
    quoted = [_sentence(old, first), _sentence(new, second)]

    assert change_of("When is it?", quoted, [old, new]) == (1 if changes else None)
