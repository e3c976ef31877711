"""The plan of plugins' models, and the paid calls of the run."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.answering.forms import NEUTRAL_QUERIES
from rag_pipeline.evaluation.general_questions import GENERAL
from rag_pipeline_tests.testing.corpora import QUERIES, copy_corpus, write_corpus
from rag_pipeline_tests.testing.plugins import done, write_package

CODE = """
from typing import Literal

import numpy as np

from rag_pipeline.config import ContextJudge, EntityExtractor, RelevanceJudge
from rag_pipeline.config.models import Completion
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import ContextJudgement, Entity, Judged, Prompt, Usage
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.metrics import Metric
from rag_pipeline.models.local import LocalChat, LocalEmbedding

PRICES = {"date": "2026-01-01", "models": {"*": {"input": 1.0, "output": 1.0}}}
DEAR = {"input": 1000.0, "output": 1000.0}


class Lengths(LocalEmbedding):
    prices = PRICES
    texts_at_once = 1
    provider: Literal["lengths"]
    dimensions: int = 8

    def embed(self, texts, input_type):
        return [np.cos(np.arange(1, 1 + self.dimensions) * len(text)) for text in texts]


class Echo(LocalChat):
    prices = {"date": "2026-01-01", "models": {"*": PRICES["models"]["*"], "dear": DEAR}}
    provider: Literal["echo"]

    def answer(self, messages, schema):
        return Completion(messages[-1]["content"], Usage(input_tokens=1, output_tokens=1))


def ask(models, chat, texts):
    replies = models.ask([Prompt(text) for text in texts], chat)
    assert not any(isinstance(reply, ProviderError) for reply in replies)
    return [reply.text for reply in replies]


class Relevance(RelevanceJudge):
    judge: Literal["asking"]
    chat: ChatName
    passages: int = 2

    def label(self, asked, models):
        ask(models, self.chat, [f"relevant? {query.query} {c.text}" for query, c in asked])
        return [True] * len(asked)


class Contexts(ContextJudge):
    judge: Literal["asking"]
    chat: ChatName

    def judge_contexts(self, answered, models):
        ask(models, self.chat, [f"useful? {one.query.query}" for one in answered])
        return [ContextJudgement((Judged("high", True),) * len(one.contexts)) for one in answered]


class Entities(EntityExtractor):
    extractor: Literal["asking"]
    chat: ChatName

    def extract(self, texts, models):
        return [[Entity("MONEY", text)] for text in ask(models, self.chat, texts)]


class Tone(AnswerScore):
    score: Literal["tone"]
    chat: ChatName
    metrics = (Metric(name="Tone", definition="1.", measure=lambda one: 1.0),)

    def measure(self, answered, models):
        ask(models, self.chat, [f"tone? {one.query.query}" for one in answered])
        return [{"Tone": 1.0} for _ in answered]


class Two(RelevanceJudge):
    judge: Literal["two"]
    first: ChatName
    second: ChatName
    passages: int = 2

    def label(self, asked, models):
        for chat in (self.first, self.second):
            ask(models, chat, [f"relevant? {query.query} {c.text}" for query, c in asked])
        return [True] * len(asked)
"""
POINTS = """
[rag_pipeline.embeddings]
lengths = asking:Lengths
[rag_pipeline.chats]
echo = asking:Echo
[rag_pipeline.judges]
asking = asking:Relevance
two = asking:Two
[rag_pipeline.context_judges]
asking = asking:Contexts
[rag_pipeline.entity_extractors]
asking = asking:Entities
[rag_pipeline.answer_scores]
tone = asking:Tone
"""


ECHO = {"echo": {"provider": "echo", "model": "echo"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_package(folder, "asking", POINTS, CODE)
    return folder


@pytest.fixture
def judged(site: Path, built: Path, tmp_path: Path) -> Path:
    """Return a folder with an index, a run and its results."""
    copy_corpus(built, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def built(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    done(site, "run", corpus(folder, "minilm", {}))
    return folder


def corpus(
    folder: Path, embedding: str, evaluation: dict[str, object], chats: dict[str, Any] = ECHO
) -> Path:
    file: Path = write_corpus(
        folder,
        chats=chats,
        contextualizers={"none": {"method": "none"}},
        embeddings={"minilm": {"provider": "minilm"}, "lengths": {"provider": "lengths"}},
        retrievers={"dense": {"method": "dense", "k": 4}},
        evaluation=evaluation,
        gate={"metrics": []},
        configurations=[
            {"chunking": "recursive_150", "embedding": embedding, "retriever": "dense"}
        ],
    )
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    lines[0]["entities"] = {"MONEY": [["180 euros"]]}
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


EVALUATION: dict[str, object] = {
    "relevance": {"judge": "asking", "chat": "echo"},
    "context": {"judge": "asking", "chat": "echo"},
    "entities": {"extractor": "asking", "chat": "echo"},
    "scores": [{"score": "tone", "chat": "echo"}],
}


def test_the_plan_counts_what_the_run_then_asks(site, judged):
    file = corpus(judged, "lengths", EVALUATION)
    plan = json.loads(done(site, "plan", file, "--json"))
    foreseen = Counter[str]()
    for step in plan:
        if step["model"] and step["asset"] != "retrieval_run":
            foreseen[step["asset"]] += step["asks"] or step["calls"]
    out = judged / "run.json"
    said = done(site, "run", file, "--json", out)
    groups = json.loads(done(site, "costs", "-c", file, "--json", "--by", "asset"))["groups"]
    made = {name.split()[0]: own["calls"] for name, own in groups.items()}
    made.pop("search", 0)  # the check of what is released
    (configuration,) = json.loads(out.read_text())["configurations"]
    texts = made["vector_index"] + made["retrieval_run"] + made.get("answers", 0)
    assert configuration["calls"]["embedding"]["made"] == texts, "prompts are not embedded"
    assert "judge the passages behind the answers  4 answers, 8 texts new to the model" in said
    # The searches of unanswered questions: the plan has their maximum. A model of this machine
    # also embeds questions for the calibration, which cost nothing and are not planned.
    most = foreseen.pop("answers")
    assert most == len(NEUTRAL_QUERIES)
    assert made.pop("answers", 0) <= most + len(GENERAL) + 50
    queries = len(QUERIES)
    assert made.pop("retrieval_run") == queries  # each query is a request of its own
    assert made["relevance_labels"] == 2 * queries
    assert made["context_scores"] == 2 * queries  # one by the judge, one by the score
    assert made["entity_scores"] == 1
    assert dict(foreseen) == made


def test_each_of_two_chat_models_is_priced_at_its_own(site, judged):
    chats = {name: {"provider": "echo", "model": name} for name in ("cheap", "dear")}

    def step(first: str, second: str) -> dict[str, Any]:
        judge = {"judge": "two", "first": first, "second": second}
        file = corpus(judged, "minilm", {"relevance": judge}, chats)
        plan = json.loads(done(site, "plan", file, "--json"))
        (labels,) = (step for step in plan if step["asset"] == "relevance_labels")
        assert isinstance(labels, dict)
        return labels

    one, both, other = step("cheap", "cheap"), step("cheap", "dear"), step("dear", "dear")
    assert (one["asks"], both["asks"]) == (2 * len(QUERIES), 4 * len(QUERIES))
    assert both["usd"] == pytest.approx(one["usd"] + other["usd"])
    assert other["usd"] == pytest.approx(1000 * one["usd"])
    assert both["model"] == "echo cheap + echo dear"
