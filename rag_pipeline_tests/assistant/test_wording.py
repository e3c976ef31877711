"""The assistant's own sentences have the language of the question."""

import pytest

from rag_pipeline.answering.extractive import NO_ANSWER
from rag_pipeline.assistant.wording import confidence_said, in_language_of

GERMAN, FRENCH = "Wer ist der Vermieter der Praxis?", "Qui est le propriétaire du cabinet ?"


@pytest.mark.parametrize(
    ("question", "sentence", "said"),
    [
        (GERMAN, NO_ANSWER, "In den Dokumenten wurde keine Antwort gefunden."),
        (FRENCH, NO_ANSWER, "Aucune réponse n'a été trouvée dans les documents."),
        ("Who is the landlord?", NO_ANSWER, NO_ANSWER),
        (GERMAN, "a.md may not be in force: draft", "a.md gilt vielleicht nicht: Entwurf"),
        (GERMAN, "a is left out: old version; {b} is in force", "a ist ausgelassen: alte Fassung; "
         "es gilt {b}"),
        (GERMAN, "not searched, because unreadable: 1,200 files",
         "nicht durchsucht, da nicht lesbar: 1,200 Dateien"),
        *((q, NO_ANSWER, NO_ANSWER) for q in ("xylophone", "And in Lindau?", "Combien coûte un "
         "stage catamaran ados ?")),
        (GERMAN, "an own sentence", "an own sentence"),
        (GERMAN, "Confidence: medium (0.40); compare it with "
         "the source", "Sicherheit: mittel (0.40); vergleichen Sie mit der Quelle"),
    ],
)  # fmt: skip
def test_sentences_are_said_in_the_language_of_the_question(question, sentence, said):
    assert in_language_of(question, sentence) == said


def test_a_confidence_is_said_in_words_with_advice():
    assert confidence_said("Who pays?", True, 0.9) == "Confidence: high (0.90)"
    unsure = "Confidence: medium (0.89); compare it with the source"
    assert confidence_said("Who pays?", True, 0.89) == unsure
    assert confidence_said("Who pays?", True, 0.896) == "Confidence: high (0.90)"
    assert confidence_said(FRENCH, False, 0.59).endswith("répondent : faible (0.59)")
    assert confidence_said("Who pays?", False, None) == ""
