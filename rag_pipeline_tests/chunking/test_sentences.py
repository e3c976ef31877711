import pytest

from rag_pipeline.chunking.sentences import sentence_spans


@pytest.mark.parametrize(
    "sentences",
    [
        ["He left.", "She stayed!", "Why?", "Nobody knows"],
        ["Dr. Smith of Acme Inc. paid $3.50 on Jan. 5.", "He left."],
        ["The U.S. Government agreed (see Sec. 5), e.g. by mail.", "It signed."],
        ["Received: P. Surname, in the yard.", "Paid by M. Kern."],
        ["He works for Acme Corp.", "The rest is J. K. Rowling's."],
        ["It rose by approx. five percent.", "The answer is no.", "No. 7 won."],
        ["1. Term. This lasts two years.", "2. Fees. None."],
        ["Section 5. Law. English law applies.", "Clause 2.1 Costs. Each pays."],
        ["(a) keep it;", "(b) return it; and", "(c) destroy it."],
        ["Fees ........ 12 and more."],
        ["Fees . . . . 12 and more."],
        ['He said "Stop."', "Then he left...", "(Really.)", "Yes!"],
        ["he left.", "revenue was 3.5 million.", "in march it rose."],
        ["It merged .", "The rest stayed ."],
        ["**Bold.**", "Plain."],
        ["क्या हुआ।", "कुछ नहीं।"],
        ["..."],
        ["See https://example.org/a.b?c=d.", "Version 1.2.3 is out"],
    ],
)
def test_sentences_of_a_line(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_sentences_without_spaces_between() -> None:
    text = "你好。世界！再见"
    assert [text[a:b] for a, b in sentence_spans(text)] == ["你好。", "世界！", "再见"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["TITLE", "A paragraph that is wrapped at\nthirty characters goes on in\nthe next line."],
        ["Heading", "and below it", "", "a paragraph without a full stop"],
        ["Buy the following things today:", "- milk", "- eggs", "* bread"],
        ["The parties agree to this much:", "1.1 to keep it", "(b) to return it", "iv) more"],
        ["# Heading", "| a table | of cells |", "| one | two |"],
        ["A line over two hundred characters is a paragraph " * 5 + "here", "and so is this"],
        ["1.2 It is, after six years, twenty-eight\n(28) weeks at half pay, as in clause\n10.2."],
        ["Er endet spätestens zum Ablauf am\n31. Dezember 2024 ohne Kündigung."],
        ["The parties agree to these", "(1) return plans to an owner", "(2) keep no copy"],
    ],
)
def test_line_ends_end_sentences_unless_the_text_is_wrapped(sentences: list[str]) -> None:
    text = "\n".join(sentences)
    found = [text[start:end] for start, end in sentence_spans(text)]
    assert found == [sentence for sentence in sentences if sentence]
