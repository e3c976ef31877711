from typing import Any

import pytest

from rag_pipeline import indexing
from rag_pipeline.calls.costs import (
    ChargedTokens,
    Learned,
    estimate_tokens,
    estimating,
    usual_output,
)
from rag_pipeline.cli.costs import estimate_lines, keep_outcome, show_costs
from rag_pipeline.cli.plan import show_plan
from rag_pipeline.config import fingerprint, load_config
from rag_pipeline.contextualization.structural import about
from rag_pipeline.errors import BudgetError
from rag_pipeline.models.chat import Prompt, expected_tokens
from rag_pipeline.models.prompts import DATA
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline.pipeline.dry_run import RunPlan, is_known, pays, plan_run, require_budget
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, paid_contexts, write_corpus, write_file
from rag_pipeline_tests.testing.model_server import ModelServer, serving

CONTEXTS = Step("contextualized_chunks", "markdown.llm")


def load_and_chunk(workspace: Workspace) -> None:
    indexing.update_documents(workspace)
    indexing.update(workspace, "chunks", "markdown")


@pytest.fixture
def server() -> Any:
    with serving(lambda body: "It is of the policies.") as running:
        yield running


def test_a_plan_tells_prompts_tokens_and_money_before_anything_is_asked(
    tmp_path, server: ModelServer, capsys
):
    file = write_corpus(tmp_path, **paid_contexts(tmp_path, server.url))
    workspace = Workspace(load_config(file))
    assert pays(workspace, CONTEXTS)
    before = {f.step: f for f in plan_run(workspace)}
    assert (before[CONTEXTS].asks, before[CONTEXTS].usd) == (None, None)
    assert not is_known(list(before.values()))
    load_and_chunk(workspace)

    found = {f.step: f for f in plan_run(workspace)}
    chunks = workspace.chunks("markdown").count()
    mine = found[CONTEXTS]
    assert (mine.asks, mine.calls, mine.exact) == (chunks, 0, True)
    # Each prompt: system text, template, tags, name, document and chunk; 4 bytes a token.
    batches = workspace.chunks("markdown").read(["document_id", "text"])
    rows = [row for batch in batches for row in batch.to_pylist()]
    names = {
        one.document_id: about(one) for one in indexing.read_documents(workspace, list(DOCUMENTS))
    }
    frame = len("Read: \n--\nSituate: !<passage>\n\n</passage>")
    frame += len('<document document="">\n\n</document>')
    tokens = len(rows) * -(-len(DATA) // 4) + sum(
        -(-(frame + len("; ".join(filter(None, names[r["document_id"]])).encode())
            + len(DOCUMENTS[r["document_id"]].encode()) + len(r["text"].encode())) // 4)
        for r in rows
    )  # fmt: skip
    assert mine.tokens == ChargedTokens(input=tokens, cached=0, output=150 * chunks)
    assert mine.usd == pytest.approx((tokens + 10 * 150 * chunks) / 1e6)
    vectors = found[Step("vector_index", "markdown.llm.minilm")]
    assert (vectors.calls, vectors.exact, vectors.usd) == (chunks, False, 0.0)
    (line,) = estimate_lines(list(found.values()))
    assert f"{chunks} prompts; about {tokens:,} input tokens" in line
    show_plan(file, as_json=False)
    assert "prompts" in capsys.readouterr().out
    assert server.requests == [], "and nothing was asked"

    indexing.update(workspace, "contextualized_chunks", "markdown.llm")
    after = {f.step: f for f in plan_run(workspace)}
    assert (after[CONTEXTS].asks, after[CONTEXTS].tokens) == (0, ChargedTokens())
    assert after[Step("vector_index", "markdown.llm.minilm")].exact
    plan = RunPlan(workspace, [CONTEXTS])
    plan.planned = list(found.values())
    shown = keep_outcome(plan, 0)
    assert f"estimated {mine.usd:.4f}" in shown
    # A reply has five tokens where 150 were expected: 150 / 5 - 1.
    assert "the estimate's error: cost +" in shown
    assert shown.endswith("output +2900 %")
    show_costs(file, "asset", as_json=False)
    assert f"UTC): {shown}" in capsys.readouterr().out
    assert f"{5 * chunks:,} output tokens, estimated {150 * chunks:,}" in shown


def test_the_cached_share_of_a_prefix_is_expected_from_its_second_prompt_on():
    chat = ChatModel(provider="openai", model="m")
    prompt = Prompt("chunk" * 4, prefix="x" * 4 * 1200)
    assert expected_tokens(prompt, chat, is_first=True) == ChargedTokens(1205, 0, 150)
    # 1,200 tokens in steps of 128: nine of them.
    assert expected_tokens(prompt, chat, is_first=False) == ChargedTokens(1205, 1152, 150)
    short = Prompt("chunk", prefix="x" * 4000)
    assert expected_tokens(short, chat, is_first=False).cached == 0
    batched = chat.model_copy(update={"batch": True, "max_output_tokens": 20})
    assert expected_tokens(prompt, batched, is_first=False) == ChargedTokens(1205, 0, 20)


def test_a_run_that_reaches_the_budget_stops_and_goes_on_when_it_is_raised(tmp_path, run_dagster):
    # Expected are 150 tokens a reply, 0.0096 USD in all. These have 400, over 0.004 USD each: the
    # third one is over the budget.
    with serving(lambda body: "word " * 400) as server:
        file = write_corpus(tmp_path, **paid_contexts(tmp_path, server.url, budget_usd=0.0105))
        with pytest.raises(BudgetError, match=r"contextualized_chunks markdown\.llm: budget_usd"):
            run_dagster(file)
        asked = len(server.requests)
        assert 1 <= asked <= 3
        write_file(tmp_path, **paid_contexts(tmp_path, server.url, budget_usd=1.0))
        results = run_dagster(file)
        workspace = Workspace(load_config(file))
        assert len(server.requests) == workspace.chunks("markdown").count(), "nothing asked twice"
        (contexts,) = (r for r in results if r.step == CONTEXTS)
        assert contexts.metadata["charged_calls"] == len(server.requests) - asked
        assert contexts.metadata["cost_usd"] > 0
        board = workspace.store.read_json("evaluation/leaderboard.json")
        assert board["configurations"][0]["costs"]["usd"] == pytest.approx(workspace.ledger.spent())


def test_reranking_judging_and_answering_are_counted_by_query_and_passage(
    tmp_path, server: ModelServer, capsys
):
    settings = paid_contexts(tmp_path, server.url)
    settings["contextualizers"] = {"none": {"method": "none"}}
    settings["rerankers"] = {
        "llm": {"method": "llm", "chat": "small", "candidates": 6},
        "voyage": {"method": "voyage", "candidates": 3},
    }
    (plain,) = settings["configurations"]
    settings["configurations"] = [
        {**plain, "name": "by_llm", "contextualizer": "none", "reranker": "llm"},
        {**plain, "name": "by_voyage", "contextualizer": "none", "reranker": "voyage"},
    ]
    settings["evaluation"] = {
        "relevance": {"judge": "llm", "chat": "small", "passages": 2},
        "answers": {"method": "llm", "chat": "small", "contexts": 4},
        "context": {"judge": "llm", "chat": "small"},
        "entities": {"extractor": "llm", "chat": "small"},
    }
    file = write_corpus(tmp_path, **settings)
    workspace = Workspace(load_config(file))
    before = {f.step: f for f in plan_run(workspace)}
    assert before[Step("relevance_labels", "by_llm")].asks is None
    assert before[Step("reranking", "by_llm")].usd is None
    load_and_chunk(workspace)
    found = {f.step: f for f in plan_run(workspace)}

    # 4 queries; none is annotated with entities. Configurations that show the same ask the same.
    asks = {str(step): f.asks for step, f in found.items() if f.asks}
    assert asks == {
        "reranking by_llm": 4 * 6,
        "reranking by_voyage": 4,
        "relevance_labels by_llm": 4 * 2,
        "answers by_llm": 4,
        "context_scores by_llm": 4,
    }
    assert not any(found[step].exact for step in found if found[step].asks)
    labels = found[Step("relevance_labels", "by_llm")]
    assert labels.tokens.output == 8 * 16, "a word each"
    assert labels.usd == pytest.approx((labels.tokens.input + 10 * 8 * 16) / 1e6)
    voyage = found[Step("reranking", "by_voyage")]
    assert voyage.model == "voyage rerank-2.5"
    assert voyage.usd == pytest.approx(voyage.tokens.input * 0.05 / 1e6)
    show_plan(file, as_json=False)
    shown = capsys.readouterr().out
    assert "let a model reorder the candidates, 2 ways" in shown
    assert "voyage rerank-2.5: 4 prompts" in shown
    assert server.requests == []


def test_estimates_learn_tokens_and_replies_from_what_was_charged(
    tmp_path, server: ModelServer, run_all
):
    file = write_corpus(tmp_path, **paid_contexts(tmp_path, server.url))
    run_all(file)
    workspace = Workspace(load_config(file))
    text = "# Pets\n\n" + "Dogs of every size may come to the office on Fridays. " * 4
    (tmp_path / "documents/pets.md").write_text(text + "\n\n## Cats\n\nThey may not come.\n")
    before = len(server.requests)
    indexing.update_documents(workspace)
    indexing.update(workspace, "chunks", "markdown")
    (contexts,) = (f for f in plan_run(workspace) if f.step == CONTEXTS)
    assert contexts.asks
    assert contexts.tokens.output == 5 * contexts.asks
    indexing.update(workspace, "contextualized_chunks", "markdown.llm")
    assert len(server.requests) == before + contexts.asks
    used = sum(charge.input for charge in list(workspace.ledger.charges())[before:])
    assert contexts.tokens.input == pytest.approx(used, rel=0.15)
    sent = [message for body in server.bodies[before:] for message in body["messages"]]
    first = sum(-(-len(message["content"].encode()) // 4) for message in sent)
    assert first > 1.2 * used, "without what was learned it was wrong by more than 20 %"


def test_factors_are_learned_by_alphabet_and_model():
    learned = Learned({"ascii": 0.5, "three_byte": 2.0}, output=9)
    assert estimate_tokens("x" * 40) == 10
    with estimating(learned):
        assert estimate_tokens("x" * 40) == 5
        assert estimate_tokens("Ä" + "x" * 39) == 11, "nothing is known of it: 41 bytes"
        assert estimate_tokens("中" * 20) == 30
        assert (usual_output(1000), usual_output(4)) == (9, 4)
    assert usual_output(1000) == 150


def test_a_plan_of_unknown_price_is_within_no_budget_and_asks_for_it(
    tmp_path, server: ModelServer, capsys
):
    settings = paid_contexts(tmp_path, "http://far.example/v1", budget_usd=5.0)
    del settings["prices"]
    file = write_corpus(tmp_path, **settings)
    with pytest.raises(BudgetError, match=r"price of far\.example m is unknown.*`price`"):
        show_plan(file, as_json=False)
    settings["chats"]["small"]["price"] = {"input": 1.0, "output": 10.0}
    workspace = Workspace(load_config(write_file(tmp_path, **settings)))
    found = plan_run(workspace)
    require_budget(workspace, found)
    (contexts,) = (f for f in found if f.step == CONTEXTS)
    assert contexts.usd == pytest.approx(
        (contexts.tokens.input + 10 * contexts.tokens.output) / 1e6
    )
    free = load_config(write_file(tmp_path, **paid_contexts(tmp_path, "http://far.example/v1")))
    priced = workspace.config
    assert fingerprint(priced.chats["small"]) == fingerprint(free.chats["small"])
