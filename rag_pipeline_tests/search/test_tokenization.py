import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import Lexical
from rag_pipeline.search.tokenization import Tokenizer

ENGLISH = Tokenizer(Lexical())
PLAIN = Tokenizer(Lexical(language="none"))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        # numbers and section references stay whole
        ("Section 3.2.", ["section", "3.2"]),
        ("12(b)", ["12(b)", "12"]),
        ("§4.1(A)(ii),", ["4.1(a)(ii)", "4.1"]),
        ("Rule 10b", ["rule", "10b"]),
        ("$1,000 or €1,234,567.89", ["1000", "or", "1234567.89"]),
        ("1, 2,3", ["1", "2", "3"]),
        ("2024-01-15 at 9:30", ["2024", "01", "15", "at", "9", "30"]),
        ("3rd of 12 (twelve)", ["3rd", "of", "12", "twelve"]),
        # identifiers are kept and split
        ("getChunk", ["getchunk", "get", "chunk"]),
        ("max_size", ["max_size", "max", "size"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("__init__", ["init"]),
        ("chunk.chunk_id", ["chunk", "chunk_id", "chunk", "id"]),
        ("eBook", ["ebook", "book"]),
        ("AGREEMENT NDAs", ["agreement", "ndas"]),
        ("Name: ________", ["name"]),
        # words
        ("the Company's non-compete", ["the", "company", "non", "compete"]),
        ("the Company’s", ["the", "company"]),
        ("l'accord", ["accord"]),
        ("'quoted'", ["quoted"]),
        ("agree\u00adment of\ufb01ce", ["agreement", "office"]),
        ("nai\u0308ve", ["naïve"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("हिन्दी", ["हिन्दी"]),
        ("契約期間", ["契約", "約期", "期間"]),
        ("2024年ABC契約", ["2024", "年", "abc", "契約"]),
        ("", []),
        (" \n\t—…", []),
        # encoded data is one cut term
        ("aB" * 500, ["ab" * 32]),
    ],
)
def test_terms_without_a_language(text: str, terms: list[str]) -> None:
    assert PLAIN.tokenize(text) == terms


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        # the stems are Snowball's published ones
        ("english", "What are the terminating parties’ obligations?", ["termin", "parti", "oblig"]),
        ("english", "They don't know who", ["know"]),
        ("german", "Die Kündigungen der Häuser", ["kundig", "haus"]),
        ("french", "l'accord des continuations", ["accord", "continu"]),
        ("spanish", "los chicos", ["chic"]),
        ("italian", "dell'abbandonata", ["abbandon"]),
        ("none", "the parties", ["the", "parties"]),
        ("dutch", "de huizen", ["huis"]),
        ("russian", "договоры", ["договор"]),
        ("arabic", "في العقود", ["عقود"]),
        ("chinese", "契約期間", ["契約", "約期", "期間"]),
    ],
)
def test_stems_and_stop_words_follow_the_language(
    language: str, text: str, terms: list[str]
) -> None:
    assert Tokenizer(Lexical.model_validate({"language": language})).tokenize(text) == terms


def test_auto_takes_the_language_of_each_text() -> None:
    auto = Tokenizer(Lexical(language="auto"))
    german = "Die Kündigungen der Häuser sind nach den Verträgen schriftlich zu erklären. " * 2
    english = "The obligations of the terminating parties are those of the agreements. " * 2
    assert auto.tokenize(german) == Tokenizer(Lexical(language="german")).tokenize(german)
    assert auto.tokenize(english) == ENGLISH.tokenize(english)
    # short texts are stemmed in every language
    assert {"kundig", "haus"} <= set(auto.tokenize("Kündigungen der Häuser"))
    assert {"termin", "oblig"} <= set(auto.tokenize("terminating obligations"))


@given(st.text())
def test_terms_hold_no_blanks(text: str) -> None:
    for term in PLAIN.tokenize(text):
        assert term.split() == [term]


@given(st.text(), st.text())
def test_lines_are_tokenized_independently(one: str, other: str) -> None:
    assert ENGLISH.tokenize(f"{one}\n{other}") == ENGLISH.tokenize(one) + ENGLISH.tokenize(other)


@given(st.text(alphabet="abxyz 0123456789.,()'-"))
def test_case_does_not_matter_outside_identifiers(text: str) -> None:
    assert ENGLISH.tokenize(text.upper()) == ENGLISH.tokenize(text)


@pytest.mark.parametrize("language", ["english", "none", "auto"])
@given(st.text(max_size=40) | st.lists(st.sampled_from(["the", "of", "rent", "—", "ﬁne"])))
def test_a_text_has_terms_if_it_has_any(language: str, text: str | list[str]) -> None:
    written = text if isinstance(text, str) else " ".join(text)
    tokenizer = Tokenizer(Lexical(language=language))
    assert tokenizer.has_terms(written) == bool(tokenizer.tokenize(written))
