import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.contextualization import contextualize
from rag_pipeline.contextualization.none import NoContext
from rag_pipeline.contextualization.structural import StructuralContext, structural_contexts
from rag_pipeline.datamodels import Chunk, Document

STRUCTURAL = StructuralContext(method="structural")
NDA = """NON-DISCLOSURE AGREEMENT

This agreement is made on 3 May 2021 between Acme Rockets Inc. ("Acme") and Birch Paper Ltd.
("Birch"), whereas both wish to talk.

1. Definitions
"Confidential Information" means all data that a party marks as secret.

2. Duties
2.1 The recipient of Confidential Information shall:
(a) keep it secret;
(b) return it on request.

GENERAL
The laws of Delaware apply.
"""
GUIDE = """# Handbook

## Leave

### Sick leave

A note is needed.

## Travel

Economy class only.
"""
CODE = """import os

class Cache:
    def get(self, key):
        value = self.values.get(key)
        return value
"""


def contexts(text, *needles, title="", document_id="nda/acme_birch.txt", settings=STRUCTURAL):
    """Return the context of the chunk that each needle is."""
    document = Document(document_id, "hash", text, title)
    chunks = []
    for needle in needles:
        start = text.index(needle)
        chunks.append(Chunk(document_id, start, start + len(needle), needle))
    found = contextualize(document, chunks, settings)
    assert [c.chunk for c in found] == chunks
    return [c.context for c in found]


def test_none_says_nothing():
    assert contexts(NDA, "The laws of Delaware apply.", settings=NoContext(method="none")) == [""]


def test_a_contract_says_what_it_is_between_whom_and_of_when():
    (context,) = contexts(NDA, "The laws of Delaware apply.", title="NON-DISCLOSURE AGREEMENT")
    assert context.split(" | ") == [
        "NON-DISCLOSURE AGREEMENT",
        "nda acme birch",
        "between Acme Rockets Inc. and Birch Paper Ltd. ,",
        "3 May 2021",
        "GENERAL",
    ]


def test_a_list_item_says_what_it_continues():
    (context,) = contexts(NDA, "(b) return it on request.")
    assert "2.1 The recipient of Confidential Information shall:" in context


def test_a_defined_term_that_is_used_is_explained_and_one_that_is_not_is_not():
    used, unused = contexts(NDA, "2.1 The recipient of Confidential Information", "(a) keep it")
    assert "Confidential Information: all data that a party marks as secret" in used
    assert "all data that" not in unused


STORE = """// Copyright the authors
#include <map>

namespace cache {
class Store
{
public:
  void put(Key key);
};
pub(crate) fn evict<T>(store: &Store) -> T {
  return store.pop();
}
"""
GROW = """enum Size {
  SMALL,
}
int grow(int by)
{
  // the usual step
    return by + 1;
}
"""
PROSE = "The members form a\nclass of shares.\nfunction and form matter.\nThe end."


@pytest.mark.parametrize(
    ("text", "needle", "document_id", "pieces"),
    [
        # headings are a path and end with their section
        (GUIDE, "A note is needed.", "g.md", ["g", "Handbook", "Leave", "Sick leave"]),
        (GUIDE, "Economy class only.", "g.md", ["g", "Handbook", "Travel"]),
        # the blocks that enclose code
        (CODE, "return value", "cache.py", ["cache", "class Cache:", "def get(self, key):"]),
        # the definitions of a file
        (
            STORE,
            "return store.pop();",
            "store.cc",
            [
                "store",
                "pub(crate) fn evict<T>(store: &Store) -> T {",
                "namespace cache {",
                "class Store",
            ],
        ),
        # braces, comments and constants are no blocks and no headings
        (GROW, "return by + 1;", "grow.c", ["grow", "int grow(int by)", "enum Size {"]),
        ("MAX_SIZE,\nMIN_SIZE,\nthe end", "the end", "sizes.txt", ["sizes"]),
        # prose about classes and functions defines nothing
        (PROSE, "The end.", "a.txt", ["a"]),
    ],
)
def test_headings_blocks_and_definitions(text, needle, document_id, pieces):
    (context,) = contexts(text, needle, document_id=document_id)
    assert context.split(" | ") == pieces


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("5. Term. It ends in May.", "5. Term"),
        ("3.2 Fees", "3.2 Fees"),
        ("ARTICLE IV Fees", "ARTICLE IV Fees"),
        ("Section 3.2 Fees", "Section 3.2 Fees"),
        ("IV. Fees", "IV. Fees"),
        ("7 Fees and taxes", "7 Fees and taxes"),
        ("I am bound by this.", None),
        ("Civil law applies here.", None),
        ("30 Days after notice it ends.", None),
        ("partners share the profit.", None),
    ],
)
def test_numbered_headings_are_told_from_sentences(line, heading):
    (context,) = contexts(f"Preamble.\n{line}\nThe end.", "The end.", document_id="a.txt")
    assert context.split(" | ") == ["a"] + ([heading] if heading else [])


def test_a_file_name_is_read_as_words_and_not_said_twice():
    (context,) = contexts("Text.", "Text.", title="Acme NDA", document_id="acme%20nda.txt")
    assert context == "Acme NDA"


def test_a_chunk_that_starts_with_blank_lines_stands_where_its_words_do():
    (context,) = contexts("# One\n\na\n\n# Two\n\nb", "\n\nb", document_id="a.md")
    assert context.split(" | ") == ["a", "Two"]


def test_a_term_within_a_longer_capitalised_phrase_is_found():
    text = '"Net Fee" means fees less tax.\nThe Annual Net Fee Report is due.'
    (context,) = contexts(text, "The Annual Net Fee Report is due.", document_id="a.txt")
    assert context.split(" | ") == ["a", "Net Fee: fees less tax"]


@pytest.mark.parametrize(
    ("text", "parties"),
    [
        ("made between Acme Inc. and Beta Ltd. The parties agree.", "Acme Inc. and Beta Ltd."),
        (
            "entered into by Hope Corp. and Müller GmbH & Co. KG. Each party shall keep it.",
            "Hope Corp. and Müller GmbH & Co. KG.",
        ),
        (
            "between St. Louis Foods, Inc. and Dr. John A. Smith (the Doctor). It starts now.",
            "St. Louis Foods, Inc. and Dr. John A. Smith .",
        ),
        ("between Total S.A. and Philips N.V. In this contract", "Total S.A. and Philips N.V."),
        (
            "between Alpha LLC. and U.S. Bank, No. 5 Main St. London. Whereas it is",
            "Alpha LLC. and U.S. Bank, No. 5 Main St. London.",
        ),
        ("between Acme Inc.\nand\nBeta Corp.\n\nThe parties", "Acme Inc. and Beta Corp."),
        ("between Acme Inc. and Beta Ltd.; the", "Acme Inc. and Beta Ltd."),
    ],
)
def test_parties_are_whole_whatever_is_abbreviated_in_their_names(text, parties):
    (context,) = contexts(f"This contract is {text}", "This contract", document_id="a.txt")
    assert f"between {parties}" in context.split(" | ")


def test_a_between_that_names_no_parties_is_left_out():
    (context,) = contexts("Noise is unwelcome between 9 a.m. and noon.\n\nThanks.", "Thanks.")
    assert "between" not in context


@pytest.mark.parametrize("limit", [16, 40, 400])
def test_a_context_keeps_its_limit(limit):
    settings = StructuralContext(method="structural", max_characters=limit)
    found = contexts(NDA, "The laws of Delaware apply.", title="T" * 500, settings=settings)
    assert 0 < len(found[0]) <= limit


@given(st.text(max_size=400))
def test_any_text_has_contexts_within_the_limit_that_repeat(text):
    document = Document("folder/a b.txt", "hash", text, text[:50])
    chunks = chunk(document, RecursiveChunking(method="recursive", max_characters=32))
    once = contextualize(document, chunks, STRUCTURAL)
    assert once == contextualize(document, chunks, STRUCTURAL)
    assert all(len(c.context) <= 400 and "\n" not in c.context for c in once)


def test_rows_of_separated_values_are_told_their_columns() -> None:
    text = "name,fee\n" + "2 May 2024,12\n" * 40
    chunk = Chunk("fees.csv", 200, 240, text[200:240])
    document = Document("fees.csv", "", text, media_type="text/csv")
    settings = StructuralContext(method="structural")
    (context,) = structural_contexts(document, [chunk], settings)
    assert context.endswith("columns: name,fee"), "the date of a row is not the document's"


def test_rows_of_a_long_table_are_told_its_columns() -> None:
    rows = "\n".join(f"| Service {n} | {n}7 euros |" for n in range(9))
    text = f"# Fees\n\n| Service | Fee in euros |\n| --- | --- |\n{rows}\n\nAfter the table.\n"
    starts = [text.index(part) for part in ("| Service |", "| Service 4", "After")]
    chunks = [Chunk("fees.md", at, at + 11, text[at : at + 11]) for at in starts]
    document = Document("fees.md", "", text, "Fees")
    settings = StructuralContext(method="structural")
    assert structural_contexts(document, chunks, settings) == ["Fees"] * 3
    found = structural_contexts(
        document, chunks, StructuralContext(method="structural", table_heads=True)
    )
    assert found == ["Fees", "Fees | columns: Service | Fee in euros", "Fees"]
