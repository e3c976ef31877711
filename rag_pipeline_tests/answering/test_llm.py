import pytest

from rag_pipeline.answering.llm import read_answer, write_answers
from rag_pipeline.answering.support import supports
from rag_pipeline.datamodels import Answer, ScoredChunk, SearchResult, Usage
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Prompt, Reply

CHUNKS = [
    ScoredChunk("a#0-60", "a", 0, 60, "Confidentiality lasts for five (5) years.", 2.0, title="A"),
    ScoredChunk("b#10-70", "b", 10, 70, "The laws of Delaware govern this agreement.", 1.0),
]


def test_numbered_citations_become_spans():
    answer = read_answer(
        "Confidentiality lasts five (5) years [1]. Delaware laws govern it. [2]", CHUNKS, 0.5
    )
    assert answer.answered
    assert [(c.number, c.document_id, c.start, c.end) for c in answer.citations] == [
        (1, "a", 0, 60),
        (2, "b", 10, 70),
    ]
    assert all(c.supports for c in answer.citations)
    assert answer.problems == ()


def test_a_number_that_no_passage_has_is_flagged():
    answer = read_answer("Confidentiality lasts five years [1][7].", CHUNKS, 0.5)
    assert answer.problems == (
        "[7] is cited and there are 2 passages: Confidentiality lasts five years.",
    )
    assert [c.number for c in answer.citations] == [1]


def test_a_passage_that_does_not_support_is_flagged():
    answer = read_answer("Confidentiality lasts ten (10) years [1].", CHUNKS, 0.5)
    assert answer.problems[0].startswith("not supported by [1]")
    assert not answer.citations[0].supports
    other = read_answer("Confidentiality lasts five years [2].", CHUNKS, 0.5)
    assert not other.citations[0].supports


def test_a_sentence_without_a_citation_is_flagged():
    answer = read_answer("It lasts five years. The laws of Delaware govern [2].", CHUNKS, 0.5)
    assert answer.problems == ("cites nothing: It lasts five years.",)


def test_several_passages_support_together():
    text = "Confidentiality lasts five years and Delaware governs this agreement [1, 2]."
    assert read_answer(text, CHUNKS, 0.9).problems == ()
    assert read_answer(text.replace("[1, 2]", "[1]"), CHUNKS, 0.9).problems


def test_no_answer_is_told_from_an_answer():
    assert not read_answer("NO ANSWER.", CHUNKS, 0.5).answered
    assert not read_answer("  ", CHUNKS, 0.5).answered
    assert read_answer("No answer is late [1].", CHUNKS, 0.5).answered


def test_support_needs_the_words_and_all_numbers():
    assert supports("Fees rise by 4% a year.", "Fees rise by 4%.", 1.0)
    assert not supports("Fees rise by 5% a year.", "Fees rise by 4%.", 0.5)
    # two of four terms: fee, rise / sharp, winter
    assert supports("Fees rise.", "Fees rise sharply in winter.", 0.5)
    assert not supports("Fees rise.", "Fees rise sharply in winter.", 0.51)


def test_each_query_is_asked_once_and_failures_stay_in_their_place():
    asked: list[Prompt] = []

    def ask(prompts):
        asked.extend(prompts)
        return [
            ProviderError("down")
            if "law" in p.user.split("Question:")[1]
            else Reply("Five [1].", None, Usage())
            for p in prompts
        ]

    found = [
        SearchResult(query="How long?", chunks=CHUNKS[:1]),
        SearchResult(query="Which law?", chunks=CHUNKS),
        SearchResult(query="?"),
    ]
    answers = write_answers(found, 0.5, ask)
    assert len(asked) == 2
    assert "[1] (a)\nConfidentiality lasts" in asked[0].user
    assert isinstance(answers[0], Answer) and isinstance(answers[2], Answer)
    assert answers[0].answered and answers[0].citations[0].chunk_id == "a#0-60"
    assert isinstance(answers[1], ProviderError)
    assert not answers[2].answered


@pytest.mark.parametrize(
    ("passage", "sentence", "holds"),
    [
        ("The Recipient shall not disclose it.", "The Recipient shall disclose it.", False),
        ("The Recipient shall disclose it.", "The Recipient shall not disclose it.", False),
        ("The Recipient shall not disclose it.", "The Recipient shall not disclose it.", True),
        ("The Recipient cannot disclose it.", "The Recipient can disclose it.", False),
        ("It shall not sell it but shall disclose it.", "It shall disclose it.", True),
    ],
)
def test_support_has_the_same_polarity(passage, sentence, holds):
    assert supports(passage, sentence, 0.5) is holds
