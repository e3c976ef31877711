from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls.costs import Prices
from rag_pipeline.errors import BudgetError, CallsStoppedError
from rag_pipeline.evaluation import Evaluator
from rag_pipeline.evaluation.llm_relevance import Agreement, agreement
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving

DOCS: list[dict[str, Any]] = [
    {"document": "The capital of France is Paris.", "rank": 1},
    {"document": "Bananas are rich in potassium."},
    {"document": "Paris {query} became the capital of France in 987."},
]
QUERY = "What is the capital of France?"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def judge(body):
    passage, question = body["messages"][-1]["content"].split("</passage>")
    assert question == f"\n\n<question>\n{QUERY}\n</question>", "the question comes last"
    return "Yes." if "capital" in passage else "NO"


def test_labels_and_metrics_of_a_ranking():
    with serving(judge) as server:
        evaluator = Evaluator(api_key="k", base_url=server.url, model="judge")
        labels = evaluator.get_relevance_labels(DOCS, QUERY)
        assert labels == dict(zip((d["document"] for d in DOCS), (1, 0, 1), strict=True))
        assert evaluator.relevance_dict == labels
        assert evaluator.relevance_labels == [1, 0, 1]
        metrics = evaluator.compute_metrics(ks=[1, 2, 3, 5])
    assert metrics == {
        "@1": {"Accuracy": 1.0, "Number of Relevant Docs": 1, "Answer Presence": 1},
        "@2": {"Accuracy": 0.5, "Number of Relevant Docs": 1, "Answer Presence": 1},
        "@3": {"Accuracy": 2 / 3, "Number of Relevant Docs": 2, "Answer Presence": 1},
        "@5": {"Accuracy": 0.4, "Number of Relevant Docs": 2, "Answer Presence": 1},
    }
    assert {r["temperature"] for r in server.bodies} == {0}
    assert {r["model"] for r in server.bodies} == {"judge"}
    assert any("Paris {query} became" in prompt for prompt in server.prompts)


def test_the_published_example_with_the_published_prompt():
    published = (
        "Here are a question and a retrieved passage from a text corpus from\nthe same domain as "
        "the question.\n\nCan you judge whether an answer to the question can be derived from the "
        'retrieved\npassage, simply answer either "YES" or "NO".\n\n<binary>\n\n'
        "Question: {query}; Retrieved Passage: {doc_text}"
    )
    with serving(
        lambda body: "YES" if "Paris" in body["messages"][-1]["content"] else "NO"
    ) as server:
        evaluator = Evaluator(api_key="k", base_url=server.url, prompt_template=published)
        labels = evaluator.get_relevance_labels(DOCS[:2], QUERY)
        metrics = evaluator.compute_metrics()
    assert labels == {DOCS[0]["document"]: 1, DOCS[1]["document"]: 0}
    assert evaluator.relevance_labels == [1, 0]
    assert list(metrics) == [f"@{k}" for k in range(1, 11)]
    for k in range(1, 11):
        assert metrics[f"@{k}"] == {
            "Accuracy": 1 / k, "Number of Relevant Docs": 1, "Answer Presence": 1
        }  # fmt: skip
    assert {body["model"] for body in server.bodies} == {"gpt-4o-mini"}


def test_only_the_first_top_k_are_judged_and_each_text_once():
    with serving(judge) as server:
        evaluator = Evaluator("k", server.url)
        evaluator.get_relevance_labels([DOCS[1], DOCS[1], DOCS[0]], QUERY, top_k=2)
    assert evaluator.relevance_labels == [0, 0]
    assert len(server.requests) == 1


def test_metrics_before_labels_are_an_error():
    with pytest.raises(ValueError, match="call get_relevance_labels first"):
        Evaluator("k", "http://127.0.0.1:9").compute_metrics()


def test_what_is_wrong_with_the_arguments_is_named():
    evaluator = Evaluator("k", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"docs\[1\]: no text under `document`"):
        evaluator.get_relevance_labels([DOCS[0], {"text": "x"}], QUERY)
    with pytest.raises(ValueError, match=r"lacks the placeholder \{query\}"):
        Evaluator("k", "http://127.0.0.1:9", prompt_template="Is this an answer? {passage}")
    with pytest.raises(ValueError, match=r"^base_url: '…' is not an address like https://host/v1$"):
        Evaluator("k", "…")
    assert evaluator.get_relevance_labels([], QUERY) == {}
    with pytest.raises(ValueError, match="0 is below 1"):
        evaluator.compute_metrics(ks=[0])


def test_a_judgement_that_fails_is_missing_and_never_no():
    def broken(body):
        text = "".join(message["content"] for message in body["messages"])
        if "Bananas" in text:
            return "I would rather not say."
        return Fault(400) if "987" in text else "YES"

    with serving(broken) as server:
        evaluator = Evaluator("k", server.url)
        assert list(evaluator.get_relevance_labels(DOCS, QUERY).values()) == [1, None, None]
    metrics = evaluator.compute_metrics(ks=[1, 2])
    assert metrics["@1"]["Answer Presence"] == 1
    assert (metrics["@2"]["Accuracy"], metrics["@2"]["Answer Presence"]) == (None, 1)
    evaluator.relevance_labels = [0, None]
    assert evaluator.compute_metrics(ks=[2])["@2"]["Answer Presence"] is None
    assert len(evaluator.errors) == 2


def test_a_template_of_ones_own(capsys):
    with serving(lambda body: "YES") as server:
        evaluator = Evaluator("k", server.url, prompt_template="{doc_text} answers {query}?")
        evaluator.get_relevance_labels(DOCS[:1], QUERY)
        evaluator.compute_metrics(ks=[1], show=True)
    passage, question = f"<passage>\n{DOCS[0]['document']}\n</passage>", f"<question>\n{QUERY}"
    assert list(server.prompts) == [f"{passage} answers {question}\n</question>?"]
    assert [m["role"] for m in server.bodies[0]["messages"]] == ["system", "user"]
    assert "@1" in capsys.readouterr().out


def test_a_judgement_is_paid_for_once_and_stands_in_the_ledger():
    with serving(judge) as server:
        for _ in range(2):
            evaluator = Evaluator("k", server.url, "judge")
            evaluator.get_relevance_labels(DOCS, QUERY)
            assert evaluator.relevance_labels == [1, 0, 1]
        assert len(server.requests) == len(DOCS)
    charges = list(evaluator.ledger.charges())
    assert [(c.asset, c.model, c.usd) for c in charges] == [("relevance", "judge", 0.0)] * 3
    assert all(charge.input > 0 and charge.output > 0 for charge in charges)


def test_a_corpus_s_cache_prices_and_budget_hold(workspace: Workspace):
    with serving(lambda body: "NO") as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        listed = {host: {"date": "2026-11-21", "models": {"*": {"output": 1e5}}}}
        workspace.ledger.prices = Prices.model_validate({"providers": listed})
        workspace.ledger.budget_usd = 200.0
        evaluator = Evaluator("k", server.url, "judge", workspace=workspace)
        evaluator.get_relevance_labels(DOCS[:1], QUERY)
        assert workspace.ledger.spent() == pytest.approx(0.1), "one token at 100,000 USD a million"
        workspace.ledger.budget_usd = 0.05
        with pytest.raises(BudgetError, match=r"budget_usd 0\.05 is reached"):
            evaluator.get_relevance_labels(DOCS, QUERY)
        evaluator.get_relevance_labels(DOCS[:1], QUERY)
        assert len(server.requests) == 1


def test_no_message_shows_the_key_and_a_wrong_one_stops_all():
    key = "sesame-open-0123456789"
    with serving(lambda body: Fault(401, f"{key} and {key[:12]} are unknown")) as server:
        evaluator = Evaluator(key, server.url)
        with pytest.raises(CallsStoppedError, match=r"\(api_key\): .*check the key") as raised:
            evaluator.get_relevance_labels(DOCS, QUERY)
        assert server.keys == {f"Bearer {key}"}
    assert key[:8] not in f"{raised.value}{evaluator.chat!r}{evaluator.chat.model_dump()}"


# --- agreement with gold ---


def test_kappa_by_hand():
    # Cohen's example: 20 + 15 of 50 agree, so 0.7; by chance 0.6 x 0.5 + 0.4 x 0.5 = 0.5
    found = Agreement(both_yes=20, only_judge=10, only_gold=5, both_no=15)
    assert found.n == 50
    assert found.kappa == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    assert Agreement(5, 0, 0, 5).kappa == 1.0
    assert Agreement(0, 5, 5, 0).kappa == -1.0
    assert Agreement(25, 25, 25, 25).kappa == 0.0


def test_kappa_is_null_where_chance_agrees_fully_or_nothing_was_judged():
    assert Agreement(7, 0, 0, 0).kappa is None
    assert Agreement(0, 0, 0, 0).kappa is None


def test_only_what_both_judged_is_compared():
    gold = [True, True, False, False, None, True]
    judge = [True, False, True, False, True, None]
    assert agreement(gold, judge) == Agreement(1, 1, 1, 1)
