# ruff: noqa: E501
"""A chat model's questions count only if they pass the round trip through the documents."""

import pytest

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Prompt, Reply, Usage
from rag_pipeline.errors import ProviderError
from rag_pipeline.loading.queries import QueryRecord
from rag_pipeline.questions.written import prompts_of, write_questions
from rag_pipeline_tests.questions.test_unanswerable import DOCUMENTS, LEASE, LICENCE

DEPOSIT = "The tenant shall provide a security deposit of USD 93,750 to the landlord."
ROYALTY = "The licensee shall pay a royalty of EUR 3.20 for each robot shipped with the runtime."
NOTICE = (
    "Either party may terminate the lease by giving six (6) months written notice.",
    "Either party may terminate the licence by giving three (3) months written notice.",
)


def reply(data) -> Reply:
    return Reply("", data, Usage())


def item(question: str, answer: str, quote: str) -> dict[str, str]:
    return {"question": question, "answer": answer, "quote": quote}


def write(answer, wanted=4, **more):
    return write_questions(
        DOCUMENTS, wanted, Lexical(), lambda prompts: [answer(p) for p in prompts], **more
    )


def test_a_question_with_a_verbatim_quote_passes_and_others_do_not() -> None:
    def answer(prompt: Prompt) -> Reply:
        if LEASE.strip() not in prompt.user:
            return reply({"answered": [], "unanswered": []})
        good = item(
            "How much must the tenant provide as a security deposit?", "USD 93,750", DEPOSIT
        )
        made_up = item("Who painted the hall?", "Ada", "Ada painted the hall of the mill.")
        return reply({"answered": [good, made_up], "unanswered": []})

    made = write(answer)
    (row,) = made.rows
    record = QueryRecord.model_validate(row)
    (gold,) = record.gold_spans
    assert LEASE[gold.start : gold.end] == DEPOSIT
    assert (record.synthetic, record.tags, record.answer) == (True, ("written",), "USD 93,750")
    assert made.refused["no such quote"] == 1


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Is the royalty EUR 3.20 for each robot shipped with the runtime?", "EUR 3.20", "the question contains its answer"),
        ("When does the ferry to the island leave?", "at noon", "unanswerable"),
    ],
)  # fmt: skip
def test_what_leaks_its_answer_or_is_not_answered_is_refused(question, answer, reason) -> None:
    written = {"answered": [item(question, answer, ROYALTY)], "unanswered": []}
    made = write(
        lambda p: reply(written if LICENCE.strip() in p.user else {**written, "answered": []})
    )
    assert made.rows == []
    assert made.refused[reason] == 1


def test_what_the_model_thinks_unanswered_is_tried_on_the_document() -> None:
    asked = ["How much is the royalty for each robot shipped?", "How much is the deposit in USD?"]
    made = write(
        lambda p: reply({"answered": [], "unanswered": asked if LICENCE.strip() in p.user else []}),
        wanted=0,
        unanswerable=4,
    )
    (row,) = made.rows
    assert (row["gold_spans"], row["tags"]) == ([], ["unanswerable", "written"])
    assert row["query"].endswith("How much is the deposit in USD?")
    assert row["query"].startswith("Korrin’s licence: ")


def test_a_question_of_two_documents_has_gold_in_both() -> None:
    question = "By how much longer is the written notice of the lease than that of the licence?"

    def answer(prompt: Prompt) -> Reply:
        first = LEASE.splitlines()[0][2:] in prompt.user.split("Second document")[0]
        quotes = NOTICE if first else NOTICE[::-1]
        return reply(
            {"question": question, "answer": "three months",
             "first_quote": quotes[0], "second_quote": quotes[1]}
        )  # fmt: skip

    made = write(answer, wanted=0, several=1)
    (row,) = made.rows
    assert {s["document_id"] for s in row["gold_spans"]} == {"lease.md", "licence.md"}
    assert row["tags"] == ["written", "several documents"]


def test_the_prompts_are_the_same_each_time_and_bounded() -> None:
    assert prompts_of(DOCUMENTS, 1) == prompts_of(DOCUMENTS, 1)
    assert len(prompts_of(DOCUMENTS, 1)) == 1
    assert len(prompts_of(DOCUMENTS, 100)) == 2
    assert prompts_of(DOCUMENTS, 0) == []


def test_where_every_prompt_fails_the_failure_is_raised() -> None:
    failure = ProviderError("the server is down")
    with pytest.raises(ProviderError, match="the server is down"):
        write(lambda p: failure)
