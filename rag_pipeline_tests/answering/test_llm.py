from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.answering.llm import ChatAnswers
from rag_pipeline.datamodels import Answer, Prompt, Reply, SearchResult, Usage
from rag_pipeline.errors import ProviderError
from rag_pipeline_tests.testing.chunking import scored

CHUNKS = [
    scored("a", "Confidentiality lasts for five (5) years."),
    scored("b", "The laws of Delaware govern this agreement."),
]


def test_each_query_is_asked_once_and_failures_stay_in_their_place():
    asked: list[Prompt] = []

    def ask(prompts, chat):
        asked.extend(prompts)
        return [
            ProviderError("down")
            if "law" in p.user.split("<question>")[1]
            else Reply("Five [1].", None, Usage())
            for p in prompts
        ]

    found = [
        SearchResult(query="How long?", chunks=CHUNKS[:1]),
        SearchResult(query="Which law?", chunks=CHUNKS),
        SearchResult(query="?"),
    ]
    models: Any = SimpleNamespace(ask=ask)
    first, failed, none = ChatAnswers(method="llm", chat="m").answer(found, models)
    assert len(asked) == 2
    assert '<passage id="1" document="a">\nConfidentiality lasts' in asked[0].user
    assert isinstance(first, Answer) and isinstance(none, Answer)
    assert first.answered and first.citations[0].chunk_id == "a#0-41"
    assert isinstance(failed, ProviderError)
    assert not none.answered


def test_quotes_replace_an_answer_that_no_passage_supports():
    def ask(prompts, chat):
        return [Reply("Bananas are rich in potassium [1]. They are yellow.", None, Usage())]

    found = SearchResult(query="How long does confidentiality last?", chunks=CHUNKS)
    models: Any = SimpleNamespace(ask=ask)
    (made,) = ChatAnswers(method="llm", chat="m").answer([found], models)
    assert isinstance(made, Answer)
    assert "Bananas" not in made.text and "five (5) years" in made.text
    assert all(c.supports for c in made.citations)
    assert "replaced by quotes" in made.problems[-1]


@pytest.mark.parametrize(
    ("reply", "stays"),
    [
        ("It lasts five (5) years [1]. Bananas are rich in potassium [1].", True),
        ("No [1].", False),
        ("So it is [1]. And that is [2].", False),
    ],
)
def test_an_answer_stays_if_one_of_its_sentences_is_supported(reply: str, stays: bool) -> None:
    models: Any = SimpleNamespace(ask=lambda prompts, chat: [Reply(reply, None, Usage())])
    found = SearchResult(query="How long does confidentiality last?", chunks=CHUNKS)
    (made,) = ChatAnswers(method="llm", chat="m").answer([found], models)
    assert isinstance(made, Answer)
    assert (made.text == reply) == stays
    assert any("replaced by quotes" in problem for problem in made.problems) != stays
    if stays:
        assert made.doubted == ("Bananas are rich in potassium [1].",)
        assert [c.supports for c in made.citations] == [False]
