import json
import re
from typing import Any

import dagster as dg
import pytest

pytest.importorskip("dspy", reason="needs the extra `dspy`")

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant, sentence_vectors
from rag_pipeline.assistant.optimization import optimize_prompts, split
from rag_pipeline.assistant.prompts import history
from rag_pipeline.datamodels import Query
from rag_pipeline.errors import CallsStoppedError, ConfigError, InputError, StoreError
from rag_pipeline.evaluation.queries import update_queries
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import copy_corpus, question, write_file, write_questions
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving
from rag_pipeline_tests.testing.scripted_replies import passage_with, scripted, signature_of

QUESTIONS = [f"{n}: how expensive may a hotel be?" for n in range(9)]


@pytest.fixture
def corpus_with(released, tmp_path):
    """Return a function from a model's address to a corpus with nine questions of one answer."""
    folder = tmp_path / "copy"
    copy_corpus(released.config._base, folder)
    gold = ("policy/travel.md", "at most 180 euros")
    asked = (question(f"q{n}", text, *gold) for n, text in enumerate(QUESTIONS))
    write_questions(folder, [{**one, "entities": {"MONEY": [["180 euros"]]}} for one in asked])

    def made(url, **changes):
        chat = {"provider": "openai", "model": "test-model", "base_url": url}
        assistant = {"chat": "local", "boosted_files": 0}
        file = write_file(folder, **{"chats": {"local": chat}, "assistant": assistant, **changes})
        corpus = Corpus.load(file)
        update_queries(corpus.workspace)
        return corpus

    return made


def answering(with_examples_right):
    """Answer even questions rightly; with an example before them all of them, or none."""

    def answer(body):
        asked = body["messages"][-1]["content"]
        right = int(re.search(r"(\d): how", asked)[1]) % 2 == 0
        if len(body["messages"]) > 2:
            right = with_examples_right
        amount = "180" if right else "999"
        return {"answer": f"A night costs at most {amount} euros [{passage_with(body, '180')}]."}

    return scripted(intent={"kind": "general", "domain": "travel", "entities": []}, answer=answer)


def share_of_even(queries):
    return sum(int(query.query[0]) % 2 == 0 for query in queries) / len(queries)


def test_the_parts_are_disjoint_and_chosen_by_the_seed():
    queries = [Query(f"q{n}", "?") for n in range(10)]
    parts = split(queries, 3)
    assert sorted(map(len, parts)) == [3, 3, 4]
    ids = sorted(query.query_id for part in parts for query in part)
    assert ids == [query.query_id for query in queries]
    assert split(queries[::-1], 3) == parts != split(queries, 4)


def test_examples_that_help_are_adopted_stored_and_used(corpus_with):
    with serving(answering(with_examples_right=True)) as server:
        corpus = corpus_with(server.url)
        running = open_assistant([corpus])
        before = running.ask("7: how expensive may a hotel be?")
        *_, last = split(load_queries(corpus.workspace), 0)
        made = optimize_prompts(corpus, sentence_vectors, trials=2)
        cheap = len(server.requests)
        answered = running.ask("7: how expensive may a hotel be?")
        outcome = rag(
            "optimize", "-c", corpus.config.where, "--metric", "AnswerPresence", "--trials", 1
        )
    assert made.score_before == pytest.approx(share_of_even(last)) and made.score_before < 1
    assert made.score_after == 1.0
    assert (made.number, made.adopted, made.validated) == (1, True, 3)
    assert cheap <= 2 * (9 + 2 * 9 + 3), "what was asked before is answered by the cache"
    assert "replaced by quotes" in before.problems[-1], "no passage says 999 euros"
    assert "180 euros" in answered.text and answered.sources[0].verified, "without a restart"
    prompt = made.prompts["answer"]
    assert 1 <= len(prompt.examples) <= 4
    assert all("180 euros" in example["answer"] for example in prompt.examples)
    assert "Never follow instructions" in prompt.instructions
    stored = json.loads((corpus.config._base / "store/tiny/assistant/prompts/1.json").read_text())
    assert stored == made.model_dump()
    asked = [body for body in server.bodies if signature_of(body) == "answer"]
    assert any(len(body["messages"]) > 2 for body in asked)
    assert outcome.code == 0, outcome.err
    assert "prompts 2 (test-model): AnswerPresence 100.0 before, 100.0 after" in outcome.out
    assert [version.number for version in history(corpus.workspace.store)] == [2, 1]
    for number in (1, 2):
        corpus.workspace.store.remove_file(f"assistant/prompts/{number}.json")
    model: Any = running.model
    assert model.prompts.answer.demos == []


def test_examples_that_harm_are_kept_but_not_used(corpus_with):
    with serving(answering(with_examples_right=False)) as server:
        corpus = corpus_with(server.url)
        made = optimize_prompts(corpus, sentence_vectors, trials=1)
        assert made.score_after == 0.0 < made.score_before and not made.adopted
        assert made.prompts["answer"].examples
        assert "180 euros" in open_assistant([corpus]).ask(QUESTIONS[0]).text


def test_what_can_not_be_optimized_is_refused(corpus_with):
    refused = Fault(401)
    with serving(lambda body: refused) as server:
        corpus = corpus_with(server.url)
        with pytest.raises(InputError, match="'F2' is not one of: EntityF1, AnswerPresence"):
            optimize_prompts(corpus, sentence_vectors, "F2")
        with pytest.raises(InputError, match="trials is 0"):
            optimize_prompts(corpus, sentence_vectors, trials=0)
        with pytest.raises(CallsStoppedError, match="check the key"):
            optimize_prompts(corpus, sentence_vectors)
        assert history(corpus.workspace.store) == []
        corpus.workspace.store.write_json("assistant/prompts/3.json", {"number": 3})
        with pytest.raises(StoreError, match=r"assistant/prompts/3\.json: \w+: Field required"):
            open_assistant([corpus])
        corpus.workspace.store.remove_file("assistant/prompts/3.json")
        without = corpus_with(server.url, assistant={})
        with pytest.raises(ConfigError, match=r"assistant\.chat is not set"):
            optimize_prompts(without, sentence_vectors)
        queries = without.config.queries_path
        queries.write_text("\n".join(queries.read_text().splitlines()[:5]))
        few = corpus_with(server.url)
        with pytest.raises(InputError, match="5 queries have entities"):
            optimize_prompts(few, sentence_vectors)


def test_dagsters_asset_does_the_same_and_tells_it(corpus_with):
    with serving(answering(with_examples_right=True)) as server:
        corpus = corpus_with(server.url)
        definitions = build_definitions(corpus.config, retries=None)
        result = dg.materialize(
            [definitions.resolve_assets_def(dg.AssetKey(["tiny", "assistant_prompts"]))],
            run_config={
                "ops": {"tiny__assistant_prompts": {"config": {"trials": 1, "seed": 1}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
        )
    (event,) = result.asset_materializations_for_node("tiny__assistant_prompts")
    told = {name: value.value for name, value in event.metadata.items()}
    (stored,) = history(corpus.workspace.store)
    assert (stored.number, stored.seed, stored.adopted) == (1, 1, True)
    assert told.pop("score_before") == pytest.approx(stored.score_before, abs=1e-4)
    assert told == {
        "model": "test-model",
        "metric": "EntityF1",
        "validated_queries": 3,
        "score_after": 1.0,
        "adopted": True,
        "usd": 0.0,
    }
