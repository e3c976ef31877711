import re

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
from rag_pipeline_tests.testing.lexical_indexes import ENGINES, built, head_rows

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
    ("query", "ask"),
    [
        ("Consider Cedar Boats; may copies be kept?", "may copies be kept?"),
        ("Under Cedar Boats, may copies be kept?", "may copies be kept?"),
        ("May copies be kept under Cedar Boats?", "May copies be kept"),
        ("May, by Cedar Boats, copies be kept?", "May, copies be kept?"),
        ("cedar boats copies kept", "copies kept"),
        ("May copies be kept under Cedra Boats?", "May copies be kept"),
        ("I mean Cedar. Please tell me whether copies are kept.", None),
    ],
)
def test_what_names_a_document_is_told_from_what_is_asked(documents, query, ask):
    question = analyse(query, documents)
    assert question.name != question.text
    assert question.text == query
    assert "boats" in question.name.lower() or question.name == "Cedar"
    assert ask is None or question.search_text == ask
    assert "copies" in question.search_text
    assert "ced" not in question.search_text.lower()
    named = question.named
    assert named is not None
    assert named.certainty == 1
    best = int(named.rows[named.shares.argmax()])
    assert documents.document_ids[best].as_py() == "nda/cedar_boats.txt"


KEPT = "May copies of its drawings be kept at home?"
"""Four words with terms: `copies`, `drawings`, `kept`, `home`."""


@pytest.mark.parametrize(
    ("query", "ask"),
    [
        # a colon: `clauses`, `support`, `contradict` are three
        (f"Which clauses of Cedar Boats support or contradict this: {KEPT}", KEPT),
        # a sentence: `signed`, `Monday`
        (f"We signed Cedar Boats Inc. on Monday. {KEPT}", KEPT),
        (f"{KEPT} I mean Cedar Boats Inc., which we signed on Monday.", KEPT),
        (f"Hello. We signed Cedar Boats on Monday. {KEPT}", KEPT),
        # a blank line: `read`, `client`
        (f"I read Cedar Boats for a client\n\n{KEPT}", KEPT),
        # a dash, and a name that the question repeats
        ("As to Cedar Boats - what is kept by Cedar Boats?", "what is kept by Cedar Boats?"),
        # the person who asks, in more words than the question has
        ("My brother works at Cedar Boats as a joiner in Leeds. Who pays?", "Who pays?"),
        (f"I advise a client on Cedar Boats Inc., and I need to know if {KEPT}", f"if {KEPT}"),
        # what follows is no question
        ("Tell me the term in Cedar Boats. I need it for a letter to my bank.", None),
        # more words lead up to the question than are in it: `copies`, `drawings`, `kept`
        ("As to copies of drawings kept under Cedar Boats: who pays?", None),
        # the part is a question itself
        (f"Who signed Cedar Boats? {KEPT}", None),
        # no sentence ends at an abbreviation
        ("Copies are kept by Cedar Boats Inc. and its many happy friends at home", None),
    ],
)
def test_a_part_that_names_a_document_and_leads_up_to_the_question_is_not_asked(
    documents, query, ask
):
    question = analyse(query, documents)
    assert "Cedar Boats" in question.name
    expected = ask or query.replace(question.name, "")
    assert re.findall(r"\w+", question.search_text) == re.findall(r"\w+", expected)


DOMAINS = {
    # name, what its two documents are, the lead-in, the question
    "Fiverr": ("privacy policy", 'Consider "{}"\'s privacy policy; ', "who can see my jobs?"),
    "Kestrel 300": ("pump manual", "In the pump manual of the {}: ", "how often is oil changed?"),
    "Bartók": ("note", "I read the programme note on {}. ", "When was the quartet written?"),
    "Mahler": ("thesis", "Quick question about the {} thesis: ", "which method was chosen?"),
    "Zephyr": ("API reference", "Looking at the {} API reference; ", "which call lists users?"),
    "Heron": ("field guide", "As to the {} field guide: ", "which colour are the eggs?"),
    "Corvus": ("game rules", "In {} (game rules), ", "how many cards are drawn?"),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_lead_ins_about_a_document_leave_what_is_asked(tmp_path, name):
    kind, lead, asked = DOMAINS[name]
    others = "This one speaks of other things, such as {} and the weather."
    made = {
        f"{other}.txt": f"{other}: {kind}. " + others.format(number)
        for number, other in enumerate((name, "Quillmere", "Dunmore", "Vanterpool"))
    }
    documents = documents_of(tmp_path, made)
    found = analyse(lead.format(name) + asked, documents)
    assert name in found.name
    assert found.search_text == asked


def test_a_quoted_file_name_of_common_words_names_its_document(tmp_path):
    text = "We keep what you tell us, and keep it safe."
    documents = documents_of(tmp_path, {f"{name}.txt": text for name in ("Keep", "Sync", "Mail")})
    for lead in ('Consider "keep"; ', "As a user of Keep: "):
        found = analyse(f"{lead}who can see my goals?", documents)
        assert found.search_text == "who can see my goals?"
        assert found.named is not None and found.named.certainty == 1
        best = int(found.named.rows[found.named.shares.argmax()])
        assert documents.document_ids[best].as_py() == "Keep.txt"
    assert analyse("Keep what? Who can see my goals?", documents).search_text.startswith("Keep")


def test_all_documents_of_a_quoted_name_are_named(tmp_path):
    names = ("a/Pump Manual.txt", "b/pump_manual.txt", "c/Lease.txt")
    documents = documents_of(tmp_path, dict.fromkeys(names, "A text."))
    named = analyse('Consider "Pump Manual"; how often is oil changed?', documents).named
    assert named is not None
    assert (named.rows.tolist(), named.shares.tolist()) == ([0, 1], [1.0, 1.0])


def test_a_name_in_the_lead_in_and_in_the_question_leaves_the_question_whole(documents):
    found = analyse("See Cedar Boats; what copies does Cedar Boats keep at home?", documents)
    assert found.search_text == "what copies does Cedar Boats keep at home?"


@pytest.mark.parametrize(
    ("query", "ask"),
    [
        ("Who can see the jobs that I post, according to the travel policy?", None),
        ("If Cedar Boats is sold, who keeps the drawings and models?", "sold"),
        ("When Cedar Boats sinks, may copies be kept?", "sinks"),
        ("Does Cedar Boats keep copies, or are they returned at once?", "copies"),
    ],
)
def test_a_clause_with_content_stays(documents, query, ask):
    found = analyse(query, documents).search_text
    assert (ask or "jobs") in found


@pytest.mark.parametrize(
    ("query", "ask"),
    [
        ("Could you tell me whether copies may be kept?", "whether copies may be kept?"),
        ("Hi there, quick question: how long is the term?", "how long is the term?"),
        ("I was just wondering if the flat can be let again", "if the flat can be let again"),
        ("I'd like to know how long the notice period is", "how long the notice period is"),
        ("Can you keep copies of the drawings?", None),
        ("I want to know more about termination", None),
        ("Do you know Acme's address?", None),
        ("Ask about pets", None),
    ],
)
def test_words_that_turn_to_a_person_are_not_asked(documents, query, ask):
    assert analyse(query, documents).search_text == (ask or query.replace(" Acme's", ""))


def test_two_documents_that_are_named_alike_score_alike(documents):
    named = analyse("Who keeps copies: Acme Rockets or Cedar Boats?", documents).named
    assert named is not None
    ids = [documents.document_ids[int(row)].as_py() for row in named.rows]
    shares = dict(zip(ids, named.shares.tolist(), strict=True))
    assert shares["nda/acme-rockets.txt"] == pytest.approx(1, abs=0.1)
    assert shares["nda/cedar_boats.txt"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    "query",
    [
        "How long does confidentiality last?",
        "My supplier went bankrupt last week. Can I terminate the contract?",
        "Two things: who pays, and when?",
        "Cedar Boats",
        "",
        " ; ; ",
    ],
)
def test_a_query_that_names_nothing_or_asks_nothing_is_left_whole(documents, query):
    assert analyse(query, documents) == whole(query)


@given(query=st.text(max_size=80) | st.lists(st.sampled_from("Cedar Boats; may, copies".split())))
def test_what_is_asked_is_part_of_the_query(documents, query):
    query = query if isinstance(query, str) else " ".join(query)
    question = analyse(query, documents)
    assert question.name in query
    assert set(re.findall(r"\w+", question.search_text)) <= set(re.findall(r"\w+", query))
    assert bool(question.search_text.strip()) == bool(query.strip())


BEFORE = "This stands before and says nothing of it. " * 250


@pytest.mark.parametrize(
    ("query", "ask"),
    [
        (f"{BEFORE}How long is the term?", "How long is the term?"),
        (f"How long is the term? {BEFORE}", "How long is the term?"),
        (f"{BEFORE}Is it Kept? {BEFORE}By whom?", "Is it Kept? By whom?"),
        (
            f"{BEFORE}Tell me the term",
            " ".join([*(BEFORE * 2).split(), *"Tell me the term".split()][-150:]),
        ),
    ],
)
def test_of_a_long_query_the_part_that_asks_is_searched_for(documents, query, ask):
    assert " ".join(whole(query).search_text.split()) == ask
    assert " ".join(analyse(query, documents).search_text.split()) == ask


@pytest.mark.parametrize("engine", ENGINES)
def test_a_word_of_many_bodies_names_nothing(tmp_path, engine):
    """`copies` is in one head alone, and in all documents."""
    rows = [(f"d{n}#0", f"name{n} copies " if n == 0 else f"name{n} ", None) for n in range(8)]
    rows += [(f"d{n}#1", "x" * 1000 + " copies", None) for n in range(8)]
    documents = built(engine, sorted(rows), tmp_path / "index").documents
    assert documents.named_by("copies").scores.max() < 0.05
    assert documents.named_by("name3").scores.max() > 0.3
    assert documents.named_by("copise").rows.tolist() == [0]
    for unknown in ("unheard", "name9", "name33", "copies1"):
        assert documents.named_by(unknown).rows.tolist() == []


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
