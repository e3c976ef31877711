from random import Random

import pytest

from rag_pipeline.datamodels import Document
from rag_pipeline.questions.facts import read_facts
from rag_pipeline.questions.wording import questions_of, shorter, with_name

SENTENCES: dict[str, set[str]] = {
    "The Supplier shall deliver the goods within thirty (30) days of the order.": {
        "Within what time must the Supplier deliver the goods of the order?",
        "How soon must the Supplier deliver the goods of the order?",
        "How quickly must the Supplier deliver the goods of the order?",
    },
    "Either party may terminate this Agreement upon thirty (30) days’ prior written notice.": {
        "Upon how much prior written notice may either party terminate this Agreement?"
    },
    "The Customer shall pay USD 5,000 for each rocket that flies.": {
        "How much must the Customer pay for each rocket that flies?",
        "What amount must the Customer pay for each rocket that flies?",
    },
    "The first fee shall not exceed EUR 900 in a calendar year.": {
        "What amount must the first fee not exceed in a calendar year?"
    },
    "The Tenant shall not keep animals in the flat or the garden.": {
        "May the Tenant keep animals in the flat or the garden?",
    },
    "The Landlord shall insure the building, and may choose the insurer.": {
        "Must the Landlord insure the building?",
    },
    "Nobody may smoke in the flat at any time of day.": set(),
    "Breaches are told to the owner and the lead may close them.": set(),
    "The contract began on 3 May 2021 and was short in the end.": set(),
    "It must be paid within thirty days of the order at hand.": set(),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_is_turned_into_a_question(sentence: str) -> None:
    expected = SENTENCES[sentence]
    text = f"the either party first contract it.\n\n{sentence}\n"
    made = {
        question
        for fact in read_facts(Document("a.txt", "hash", text))
        for seed in range(30)
        for question in questions_of(fact, Random(seed))
    }
    assert expected <= made
    assert all("30" not in q and "thirty" not in q and "5,000" not in q for q in made)
    if not expected:
        assert not any(q.split()[1] in ("must", "may", "shall", "is") for q in made)


def test_questions_are_in_other_words_first() -> None:
    text = "invoices are\n\nInvoices shall be retained by the Customer for seven (7) years.\n"
    (fact,) = (f for f in read_facts(Document("a.txt", "h", text)) if f.kind == "duration")
    first, second, *_ = questions_of(fact, Random(0))
    assert first == second.replace("invoices", "bills").replace("retained", "kept")
    assert "bills" in first and "invoices" in second


def test_a_named_question_holds_the_name_once() -> None:
    made = {
        with_name("How long is the term?", "the Acme lease", Random(seed)) for seed in range(40)
    }
    assert made == {
        "How long is the term, according to the Acme lease?",
        "In the Acme lease, how long is the term?",
        "According to the Acme lease, how long is the term?",
    }


def test_a_question_is_cut_before_a_time_as_long_as_it_asks_for_something() -> None:
    question = (
        "How long must records of a repair be kept by the Supplier after the end of the term?"
    )
    assert list(shorter(question)) == [
        "How long must records of a repair be kept by the Supplier?",
        question,
    ]


ODD = (
    "Name: tool\nVersion: 3.1.6\nSummary: A tool for 30 days\n\n# Version: 3.1.6\n\nIt is new.\n",
    "The Buyer may reject a load if ten percent (10%) of the fruit is bruised.\n",
    "The details of the performance may be found here.\n",
    "Furthermore you can prevent the collection of data by a setting.\n",
    "Der Käufer zahlt 40 % des Preises innerhalb von 14 Tagen nach der Bestätigung an die Firma.\n",
    "El inquilino debe pagar 500 euros al propietario durante los primeros 30 días del año.\n",
)


@pytest.mark.parametrize("text", ODD)
def test_no_question_is_made_of_what_gives_only_an_odd_one(text: str) -> None:
    facts = read_facts(Document("a.txt", "hash", text))
    assert [q for fact in facts for q in questions_of(fact, Random(0))] == []


def test_a_prohibition_is_asked_for_with_may_and_a_forecast_with_will() -> None:
    text = "The Firm will not sell any personal data. The Buyer must not assign this Agreement.\n"
    facts = read_facts(Document("a.txt", "hash", text))
    assert [next(questions_of(fact, Random(0))) for fact in facts] == [
        "Will the Firm sell any personal data?",
        "May the Buyer assign this Agreement?",
    ]


def test_german_documents_are_asked_about_in_german() -> None:
    text = "# Vertrag\n\n## Kaution\n\nDer Mieter zahlt dem Vermieter eine Kaution von 900 Euro.\n"
    facts = read_facts(Document("a.md", "hash", text, "Vertrag"))
    asked = [question for fact in facts for question in questions_of(fact, Random(0))]
    assert asked == ["Was gilt zum Thema Kaution?", "Wie hoch ist die Kaution?"]
    assert with_name(asked[1], "“Vertrag”", Random(0)) == "Wie hoch ist die Kaution laut “Vertrag”?"
