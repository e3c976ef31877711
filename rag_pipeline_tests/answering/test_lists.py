import pytest

from rag_pipeline.answering.extractive import Ranked
from rag_pipeline.answering.lists import asks_for_steps, lists_of, summary_spans
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.reading import multilingual
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline.answering.structured import structured_answer
from rag_pipeline.datamodels import Document, SearchResult
from rag_pipeline_tests.testing.answers import answered
from rag_pipeline_tests.testing.chunking import scored

WINCH = """# Winch

Serviced by the bosun every spring.

## Raising the anchor

1. Open the brake.
2. Turn the crank to the left
   until the chain is tight.
3. Close the brake.

## Stowing

1. Lift the anchor on board.
2. Lash the anchor to the deck.

## Never allowed

The following are forbidden:

- smoking at the winch
- loose sleeves

Ask the mate about anything else.
"""


def test_lists_are_whole_with_the_headings_and_the_line_above():
    headings, raising, stowing, forbidden = lists_of(Document("d", "", WINCH))
    assert [WINCH[slice(*item)] for item in headings.items] == [
        "Raising the anchor",
        "Stowing",
        "Never allowed",
    ]
    assert [WINCH[slice(*item)].split()[0] for item in raising.items] == ["1.", "2.", "3."]
    assert "until the chain is tight." in WINCH[slice(*raising.span)]
    assert (raising.above, raising.numbered) == ("Winch\nRaising the anchor", True)
    assert forbidden.above == "Winch\nNever allowed\nThe following are forbidden:"
    assert not forbidden.numbered and len(stowing.items) == 2


def test_steps_are_quoted_in_their_order_from_the_first():
    for question in (
        "How do I raise the anchor?",
        "What are the steps for raising the anchor?",
    ):
        (citation,) = answered(question, WINCH).citations
        assert citation.text.startswith("1. Open the brake.")
        assert citation.text.endswith("3. Close the brake.")
    (stowing,) = answered("How do I do the stowing of the anchor?", WINCH).citations
    assert stowing.text.startswith("1. Lift") and stowing.text.endswith("deck.")


@pytest.mark.skipif(multilingual() is None, reason="no multilingual model")
def test_steps_whose_headings_mean_what_is_asked_need_none_of_its_words():
    (citation,) = answered("What is the sequence when the chain has to come in?", WINCH).citations
    assert citation.text.startswith("1. Open the brake.")


PACKING = """# Weekend on board

The ferry leaves at noon. Cabins have two beds.

## Luggage

- a towel and dry clothes
- soft shoes
- sun cream
"""


@pytest.mark.skipif(multilingual() is None, reason="no multilingual model")
def test_an_open_question_gets_the_whole_list():
    packed = PACKING.partition("Luggage\n\n")[2].rstrip()
    assert answered("What do I pack?", PACKING).citations[0].text == packed
    assert answered("It is my first trip, what should I pack?", PACKING).citations[0].text == packed
    assert answered("What does a cabin have?", PACKING).citations[0].text != packed


def test_numbered_stages_and_steps_are_no_question_for_steps():
    for question in ("What does Stage 3 cost?", "Who leads step 2?", "Un stage, c'est quoi ?"):
        assert not asks_for_steps(question)
    assert asks_for_steps("What are the stages of a repair?")


def test_rows_far_from_the_best_sentence_do_not_answer():
    text = "The mess is green.\n\n| Tool | Use |\n| --- | --- |\n| rope | mess |\n| hook | deck |\n"
    document, chunk = Document("d", "", text), scored("d", text)
    starts = 0, text.index("| rope")
    sentences = [Sentence(chunk, 1, at, text[at : at + 15], 0.0) for at in starts]
    found = SearchResult(query="Is there a green rope in the mess?", chunks=[chunk])
    for score, is_near in ((3.0, True), (2.9, False)):
        ranked = Ranked(1.0, sentences, [5.0, score], 3.0)
        answer = structured_answer(found, ranked, lambda _: document)
        assert (answer is not None) == is_near
    # The best sentence is another row of the same document.
    other = Sentence(chunk, 1, text.index("| hook"), "| hook | deck |", 0.0)
    ranked = Ranked(1.0, [other, sentences[1]], [5.0, 4.9], 3.0)
    assert structured_answer(found, ranked, lambda _: document) is None


def test_steps_stand_on_lines_that_name_them_or_within_a_paragraph():
    lines = "Starting the pump\n\nStep 1: Fill the tank.\nStep 2: Open the valve.\n\nDone."
    (named,) = lists_of(Document("d", "", lines))
    assert lines[slice(*named.span)] == "Step 1: Fill the tank.\nStep 2: Open the valve."
    assert (named.above, named.numbered) == ("Starting the pump", True)
    prose = "To start the pump: 1. Fill the tank. 2) Open the valve. Then wait.\n\nIn 2024. A year."
    (inline,) = lists_of(Document("d", "", prose))
    assert [prose[slice(*i)] for i in inline.items] == ["1. Fill the tank.", "2) Open the valve."]
    assert inline.above == "To start the pump:"


def test_deeper_items_and_the_text_between_two_numbers_belong_to_the_step_above():
    text = (
        "1. Fill:\n   - oil\n   a) air\n\nWait a day.\n\n2. Start.\n\nDone.\n\n- a rope\n- a hook"
    )
    steps, tools = lists_of(Document("d", "", text))
    assert [text[slice(*item)] for item in steps.items] == [
        "1. Fill:\n   - oil\n   a) air\n\nWait a day.",
        "2. Start.",
    ]
    assert (steps.numbered, tools.numbered, len(tools.items)) == (True, False, 2)


def test_the_headings_under_what_is_asked_for_answer_with_their_first_sentences():
    text = "# Pumps of the ship\n\n## Bilge\n\nOf 2019. Red.\n\n## Deck\n\n## Fire\n\nOf 2021.\n"
    found = answered("Which pumps does the ship have?", text)
    quotes = [citation.text for citation in found.citations]
    assert quotes == ["Bilge\n\nOf 2019.", "Deck", "Fire\n\nOf 2021."]


def test_a_list_is_quoted_whole_if_only_the_title_is_asked_for():
    items = "- The slipway is lengthened.\n- No robot is bought.\n- Hall two gets panels."
    minutes = f"# Minutes of the board, April\n\nPresent: Petra.\n\n## Decisions\n\n{items}\n"
    quotes = [c.text for c in answered("What did the board decide in April?", minutes).citations]
    assert quotes == [items]
    quotes = [c.text for c in answered("Did the board buy a robot in April?", minutes).citations]
    assert items not in quotes


def test_a_list_is_quoted_whole():
    (citation,) = answered("What is never allowed at the winch?", WINCH).citations
    assert (
        citation.text == "The following are forbidden:\n\n- smoking at the winch\n- loose sleeves"
    )


def test_a_summary_has_the_leading_sentence_of_each_section_or_one_section():
    text = "# Log\n\nCalm sea. No wind.\n\n## Cargo\n\nTen crates. Two broke.\n\n## Crew\n\nWell."
    answer = answered("Summarise the log.", text)
    assert [c.text for c in answer.citations] == ["Calm sea.", "Ten crates.", "Well."]
    document = Document("d", "", text, title="Log")
    spans = summary_spans(Words("cargo in the log", [text]), document, 12)
    assert [text[slice(*span)] for span in spans] == ["Ten crates.", "Two broke."]
    short = answered("Summarise the log.", "# Log\n\nCalm sea. No wind.")
    assert [c.text for c in short.citations] == ["Calm sea.", "No wind."]


def test_steps_with_dotted_numbers_are_one_list_with_deeper_steps_inside():
    text = (
        "# Kennel\n\n## 4 Release\n4.1 Weigh the dog.\n4.2 Hand back the bowl.\n"
        "   4.2.1 Wash it.\n   4.2.2 Dry it.\n4.3 Take the money.\n\n## 5 Cleaning\n5.1 Rinse.\n"
    )
    (_, release) = lists_of(Document("d", "", text))
    assert [text[slice(*item)].split()[0] for item in release.items] == ["4.1", "4.2", "4.3"]
    assert "4.2.2 Dry it." in text[slice(*release.items[1])] and release.numbered
