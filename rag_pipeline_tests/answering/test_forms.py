import pytest

from rag_pipeline.answering.extractive import sentence_features
from rag_pipeline.answering.forms import contexts_of, form_answers, most_contexts_of
from rag_pipeline.answering.reading import read_passages, sentence_vectors
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import SearchResult
from rag_pipeline_tests.testing.answers import answered
from rag_pipeline_tests.testing.chunking import scored

PENSION = "The Company contributes seven percent of salary to the pension."

PREAMBLE = "This contract is made between {} (the “Company”) and {} (the “Employee”)."


def test_headings_are_not_quoted():
    text = "## Annual leave\n\n1. ANNUAL LEAVE\n\n年假\n\nAll have ten days of annual leave."
    read = read_passages("annual leave", [scored("d", text)], sentence_vectors)
    sentences, _ = sentence_features("annual leave", read, sentence_vectors)
    assert [s.text for s in sentences] == ["年假", "All have ten days of annual leave."]


def test_what_leads_in_a_list_is_quoted_with_its_items_alone():
    listed = "The following are never reimbursed:\n- parking fines\n- lounge access"
    text = f"{listed}\n\n## Claims\n\nClaims are sent within ten days."
    found = SearchResult(query="What is never reimbursed?", chunks=[scored("d", text)])
    (answer,) = form_answers([found], ExtractiveAnswers(confidence=0), sentence_vectors)
    quotes = [citation.text for citation in answer.citations]
    assert quotes[0] == listed
    assert not any("- " in quote for quote in quotes[1:])


def test_a_sentence_is_also_met_by_its_heading():
    text = "## Annual leave\n\nAll have ten days.\n\n## Lunch\n\nAll have one hour."
    read = read_passages("annual leave", [scored("d", text)], sentence_vectors)
    sentences, features = sentence_features("annual leave", read, sentence_vectors)
    late = dict(zip([s.text for s in sentences], features[:, 0], strict=True))
    assert late["All have ten days."] > late["All have one hour."] + 0.1


def test_a_choice_between_two_names_quotes_each_from_its_own_document():
    acme = "# Acme\n\nAcme is paid after 45 days.\n\nThe lawn is green."
    globex = "# Globex\n\nGlobex is paid after 30 days.\n\nThe roof is red."
    both = "# List\n\nAcme and Globex are suppliers.\n"
    question = "Which supplier is paid later, Acme or Globex?"
    answer = answered(question, both, globex, acme)
    assert [row.document_id for row in answer.table] == ["Acme", "Globex"]
    assert [cited.document_id for cited in answer.citations] == ["2.md"] * 2 + ["1.md"] * 2
    assert "45 days" in answer.table[0].text and "30 days" in answer.table[1].text
    settings = ExtractiveAnswers()
    assert contexts_of(question, "comparison", settings) == 15
    assert most_contexts_of(question, "comparison", settings) == 50
    lacking = answered("Which supplier is paid later, Acme or Zenith?", both, acme)
    assert lacking.table[1].text == "— (nothing found about Zenith)"
    assert lacking.table[1].document_id == "Zenith"


def test_a_quote_of_another_name_is_answered_with_low_confidence():
    lease = "# Lease of the Fenwick hall\n\nThe lease ends on 30 June 2031."
    hours = "# Hours\n\nThe Marburg hall opens at nine."
    asked = "When does the lease of the {} hall end?"
    own, other = (answered(asked.format(name), lease, hours) for name in ("Fenwick", "Marburg"))
    assert "2031" in own.citations[0].text and "2031" in other.citations[0].text
    assert own.confidence > 0.6 and other.confidence == 0.5


def test_a_short_paragraph_is_quoted_whole_where_another_model_found_it():
    text = "# Leave\n\nAll get ten days off.\nCooks get twelve days off.\n\nThe deck is swept."
    assert "Cooks get twelve" in answered("How many days off are there?", text).citations[0].text
    prose = "Orca may fish with two nets in the whole bay until the end of May."
    permit = f"HARBOUR OFFICE\n{prose}\nPaid in Ulm by card.\nDesk 4."
    (quote, *_) = answered("How many nets may Orca fish with?", permit).citations
    assert quote.text == f"{prose}\nPaid in Ulm by card.", "short lines are no prose"
    wrapped = f"It is never\nvalid for two nets in May. {prose}"
    (quote, *_) = answered("Is it valid for two nets in May?", f"OFFICE\n{wrapped}").citations
    assert quote.text == wrapped, "a line in lower case goes on"


@pytest.mark.parametrize(("old", "new"), [("2022", "2025"), ("v1", "v2")])
def test_two_years_or_versions_of_one_document_are_compared(old: str, new: str):
    texts = {
        f"travel_{old}.md": "# Travel\n\nA hotel costs up to 110 euros.\n\nTrains are slow.",
        f"budget_{new}.md": "# Budget\n\nHotels cost 9000 euros.",
        f"travel_{new}.md": f"It replaces {old}.\n\nA hotel costs up to 140 euros.",
    }
    chunks = [scored(name, text) for name, text in texts.items()]
    question = f"Compare the hotel limits of the travel rules of {old} and {new}"
    found = SearchResult(query=question, chunks=chunks, kind="comparison")
    (answer,) = form_answers([found], ExtractiveAnswers(confidence=0), sentence_vectors)
    assert [(row.document_id, row.text[:40]) for row in answer.table] == [
        (f"travel_{old}.md", "“A hotel costs up to 110 euros.” [1]"),
        (f"travel_{new}.md", "“A hotel costs up to 140 euros.” [2]"),
    ]


def test_two_sections_of_one_document_are_compared():
    text = "# Winches\n\n## Orca\n\nBought in 2019.\n\n## Petrel\n\nBought in 2021.\n"
    answer = answered("Which winch was bought later, Orca or Petrel?", text)
    assert [row.text for row in answer.table] == ["“Bought in 2019.” [1]", "“Bought in 2021.” [2]"]


def test_a_mail_that_changes_a_quoted_row_comes_first():
    table = "# Hours\n\n| Office | Late |\n| --- | --- |\n| Dunmere | until 20:00 |\n"
    mail = "For Dunmere, the late evening was until 20:00, it is now until 19:30.\n"
    answer = answered("Until when is Dunmere open late?", table, mail)
    assert answer.citations[0].text == mail.strip()


def test_a_question_for_a_cause_is_answered_by_the_paragraph_below_that_heading():
    text = "What happened\nThe fridge got warm.\n\nCause\nThe plug was out.\n\nDamage\nNone.\n"
    assert "plug" in answered("Why did the fridge get warm?", text).citations[0].text
