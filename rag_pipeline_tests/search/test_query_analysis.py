import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index import DocumentIndex
from rag_pipeline.search.lexical_index.documents import (
    DocumentHeads,
    readable_name,
    write_documents,
)
from rag_pipeline.search.query_analysis import analyse, whole
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline_tests.testing.lexical_indexes import head_rows

DOCUMENTS = {
    "nda/acme-rockets.txt": "Non-disclosure agreement between Acme Rockets Inc. and Birch Paper.",
    "nda/cedar_boats.txt": "Non-disclosure agreement between Cedar Boats LLC and Dune Sand GmbH.",
    "policy/travel.md": "Travel policy. Flights under six hours are booked in economy class.",
    "policy/leave.md": "Leave policy. Every parent may take sixteen weeks of paid leave.",
}


def documents_of(folder, documents, settings=None):
    settings = settings or Lexical()
    heads, tokenizer = DocumentHeads(), Tokenizer(settings)
    heads.add(head_rows([(i, 0, text, "") for i, text in documents.items()]))
    write_documents(heads, settings, tokenizer, folder / "documents")
    return DocumentIndex(folder / "documents", settings, tokenizer)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    return documents_of(tmp_path_factory.mktemp("named"), DOCUMENTS)


@pytest.mark.parametrize(
    ("query", "name", "ask"),
    [
        (
            "Consider the agreement between Cedar Boats and Dune Sand; may copies be kept?",
            "Consider the agreement between Cedar Boats and Dune Sand",
            "may copies be kept?",
        ),
        ("Acme Rockets and Birch Paper: how long is the term?", None, "how long is the term?"),
        (
            "Under the NDA of Cedar Boats. We lost a laptop. Must we tell them?",
            "Under the NDA of Cedar Boats",
            "We lost a laptop Must we tell them?",
        ),
    ],
)
def test_what_names_a_document_is_told_from_what_is_asked(documents, query, name, ask):
    question = analyse(query, documents)
    assert question.names_document
    assert question.text == query
    assert question.name == (name or query.partition(":")[0])
    assert question.ask.rstrip("?") == ask.rstrip("?")


@pytest.mark.parametrize(
    "query",
    [
        "How long does confidentiality last?",
        "What does the agreement of Cedar Boats and Dune Sand say about copies?",
        "My supplier went bankrupt last week. Can I terminate the contract?",
        "Two things: who pays, and when?",
        "",
        " ; ; ",
    ],
)
def test_a_query_with_no_part_that_names_a_document_is_left_whole(documents, query):
    assert analyse(query, documents) == whole(query)
    assert not analyse(query, documents).names_document


@given(query=st.text(max_size=80))
def test_no_word_is_lost(documents, query):
    question = analyse(query, documents)
    words = f"{question.name} {question.ask}" if question.names_document else question.ask
    kept = "".join(character for character in words if character.isalnum())
    assert sorted(kept) == sorted(character for character in query if character.isalnum())


def test_nothing_is_named_where_there_are_no_documents(tmp_path):
    none = documents_of(tmp_path, {})
    assert len(none) == 0
    assert analyse("Cedar Boats; may copies be kept?", none).name.startswith("Cedar Boats; may")


def test_a_document_scores_by_the_share_of_the_terms_that_name_it(documents):
    ids = documents.document_ids.to_pylist()
    assert ids == sorted(DOCUMENTS)
    named = documents.scores("Cedar Boats and Dune Sand")
    assert ids[named.argmax()] == "nda/cedar_boats.txt"
    assert (documents.scores("unheard-of words") == 0).all()
    assert (documents.scores("") == 0).all()
    assert documents.scores("Cedar Boats quux").max() < documents.scores("Cedar Boats").max()
    assert (documents.scores("Cedar Cedar") == documents.scores("cedar")).all()


def test_document_scores_worked_by_hand(tmp_path):
    # records "a a a x" and "b b b y y": 4 and 5 terms, avgdl 4.5; idf of a term in 1 of 2 is
    # ln(1 + 1.5 / 1.5) = ln 2, of an unknown one ln(1 + 2.5 / 0.5) = ln 6
    index = documents_of(tmp_path, {"a": "x", "b": "y y"}, Lexical(language="none"))
    low = 1.2 * (0.25 + 0.75 * 4 / 4.5)
    assert index.scores("x").tolist() == pytest.approx([1 / (1 + low), 0])
    ideal = 0.693147 + 1.791759
    assert index.scores("a zzz").tolist() == pytest.approx([0.693147 * 3 / (3 + low) / ideal, 0])


@pytest.mark.parametrize(
    ("document_id", "name"),
    [
        ("nda/Acme%20Inc_v2.txt", "Acme Inc v2"),
        ("2021-05-03+mutual__nda.pdf", "2021 05 03 mutual nda"),
        ("README", "README"),
    ],
)
def test_a_file_name_is_read_as_words(document_id, name):
    assert readable_name(document_id) == name


def test_a_head_is_the_first_characters_whatever_the_order_of_its_chunks():
    rows = [
        ("d.txt", 1200, "late", "T"),
        ("d.txt", 4, "bbb ccc", "T"),
        ("d.txt", 0, "aaa bbb", "T"),
        ("d.txt", 996, "xxxxyyyy", "T"),
    ]
    for order in (rows, rows[::-1]):
        heads = DocumentHeads()
        heads.add(head_rows(order))
        [(document_id, record)] = heads.records()
        assert document_id == "d.txt"
        assert record == "d d d\nT\naaa bbb ccc\nxxxx"
