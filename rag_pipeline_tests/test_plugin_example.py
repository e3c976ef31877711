"""examples/plugin, installed: each kind of plugin from the corpus file to the released answer."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from rag_pipeline import imports
from rag_pipeline.imports import EMBEDDINGS, load_group
from rag_pipeline_tests.testing.corpora import DOCUMENTS, QUERIES, write_documents
from rag_pipeline_tests.testing.plugins import ROOT, done, rag

SERVED = "paragraphs.topic.hashing.spread.none"
CORPUS = f"""
type: rag_pipeline.RagPipeline
attributes:
  corpus: plugged
  documents: {{path: documents}}
  queries: queries.jsonl
  store: store
  chats: {{parrot: {{provider: first_words, model: parrot}}}}
  chunkings: {{paragraphs: {{method: paragraphs}}}}
  contextualizers: {{topic: {{method: topic, chat: parrot}}}}
  embeddings: {{hashing: {{provider: hashing, dimensions: 256}}}}
  retrievers:
    dense: {{method: dense}}
    spread: {{method: spread, k: 50}}
    staged: {{method: context_aware, over: {{method: spread}}}}
  evaluation:
    relevance: {{judge: shared_words}}
    context: {{judge: shared_words}}
    answers: {{method: whole_chunk, contexts: 2}}
    entities: {{extractor: capitals}}
    scores: [{{score: brevity}}]
  configurations:
    - {{chunking: paragraphs, contextualizer: topic, embedding: hashing, retriever: "*"}}
  serve: {SERVED}
"""
TOPICS = {
    "nda/acme.txt": "MUTUAL NON-DISCLOSURE AGREEMENT This",
    "nda/cedar.txt": "NON-DISCLOSURE AGREEMENT This agreement",
    "policy/leave.md": "# Leave policy of",
    "policy/travel.md": "# Travel policy of",
}
"""The first four words of each document, which is what the example's model says of it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the package was installed, with no network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(ROOT / "examples/plugin", folder / "source")
    options = "--quiet --no-index --no-deps --no-build-isolation --target".split()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, folder / "site", source], check=True
    )
    return folder / "site"


def told(site: Path, *arguments: str | Path) -> Any:
    """Return the JSON that a command prints."""
    return json.loads(done(site, *arguments, "--json"))


def changed(file: Path, before: str, after: str) -> Path:
    text = file.read_text()
    assert before in text
    other = file.with_name("changed.yaml")
    other.write_text(text.replace(before, after))
    return other


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_documents(folder / "documents", DOCUMENTS)
    rows = []
    for query_id, query, document_id, quote in QUERIES:
        start = DOCUMENTS[document_id].index(quote)
        span = {"document_id": document_id, "start": start, "end": start + len(quote)}
        row: dict[str, Any] = {"query_id": query_id, "query": query, "gold_spans": [span]}
        if query_id == "q2":
            row["entities"] = {"ORGANIZATION": [["Governing"], ["Switzerland"], ["Cedar"]]}
        rows.append(json.dumps(row))
    (folder / "queries.jsonl").write_text("\n".join(rows))
    (folder / "corpus.yaml").write_text(CORPUS)
    return folder / "corpus.yaml"


@pytest.fixture(scope="module")
def planned(site: Path, file: Path) -> dict[str, Any]:
    plan: dict[str, Any] = told(site, "plan", file)
    return plan


@pytest.fixture(scope="module")
def ran(site: Path, file: Path, planned: dict[str, Any]) -> str:
    return done(site, "run", file)


def test_the_results_are_the_plugins(site, file, ran):
    (hit,) = told(site, "search", "hotel euros a night", "-k", "1", "-c", file)
    # One paragraph, below what the model said of its document.
    assert hit["text"] == DOCUMENTS["policy/travel.md"].splitlines()[-1]
    assert hit["context"] == TOPICS["policy/travel.md"]


def test_a_retriever_ranks_by_its_own_rule(site, file, ran):
    board = told(site, "leaderboard", "-c", file)
    assert {row["retriever"] for row in board["configurations"]} == {"dense", "spread", "staged"}
    found = told(site, "search", "agreement", "-k", "4", "-c", file)
    assert len({hit["document_id"] for hit in found}) == 4
    many = told(site, "search", "agreement", "-k", "99", "-c", file)
    assert [hit["chunk_id"] for hit in many[:4]] == [hit["chunk_id"] for hit in found]
    assert len({hit["chunk_id"] for hit in many}) == len(many) > 4
    some = told(site, "search", "agreement", "--where", "document_id LIKE 'nda/%'", "-c", file)
    assert {hit["document_id"] for hit in some} == {"nda/acme.txt", "nda/cedar.txt"}


def test_their_measures_stand_on_the_leaderboard(site, file, ran):
    board = told(site, "leaderboard", "-c", file)
    metrics = board["configurations"][0]["metrics"]
    assert metrics["Words@1"]["n"] == metrics["AnswerPresence@5"]["n"] == 4
    assert metrics["Words@1"]["mean"] > 1
    assert 0 < metrics["Brevity"]["mean"] < 1
    # "2. Governing law. The laws of Switzerland …" names two of the three.
    assert metrics["EntityRecall"]["n"] == 1
    assert metrics["EntityRecall"]["mean"] == pytest.approx(2 / 3)
    folder = file.parent / "store/plugged/evaluation/context_scores"
    (row,) = (
        row
        for row in pq.read_table(folder / f"{SERVED}.parquet").to_pylist()
        if row["query_id"] == "q4"
    )
    # None of the contexts has half of the words of "How expensive may a hotel be?".
    assert {context["level"] for context in row["contexts"]} <= {"low", "none"}
    assert row["contexts"][0]["used"]


def test_the_release_answers_as_the_leaderboard_measured(site, file, ran):
    rows = pq.read_table(file.parent / f"store/plugged/evaluation/answers/{SERVED}.parquet")
    measured = {row["query_id"]: json.loads(row["answer"]) for row in rows.to_pylist()}
    served = told(site, "ask", QUERIES[1][1], "-c", file)
    assert measured["q2"]["text"] == served["text"]
    said = "2. Governing law. The laws of Switzerland apply to this agreement. [1]"
    assert served["text"] == said
    assert [source["verified"] for source in served["sources"]] == [True]
    unknown = told(site, "ask", "xylophone quartz", "-c", file)
    assert (unknown["answered"], unknown["text"]) == (False, "No chunk answers this.")


def test_a_changed_answer_method_makes_answers_and_what_judges_them_stale(site, file, ran):
    other = changed(file, "whole_chunk, contexts: 2", "whole_chunk, contexts: 2, words: 3")
    steps = told(site, "plan", other)
    stale = {step["asset"] for step in steps if step["runs"] and step["partition"] == SERVED}
    assert stale == {"answers", "entity_scores", "context_scores"}


def test_what_is_paid_stands_in_the_ledger(site, file, ran):
    costs = told(site, "costs", "-c", file)
    words = sum(len(text.split()) for text in DOCUMENTS.values())
    assert list(costs["groups"]) == ["contextualized_chunks paragraphs.topic"]
    assert costs["total"]["calls"] == len(DOCUMENTS)
    assert (costs["total"]["input_tokens"], costs["total"]["output_tokens"]) == (words, 16)
    assert costs["total"]["usd"] == pytest.approx((words * 1.0 + 16 * 2.0) / 1e6)


def test_a_changed_setting_makes_what_follows_stale(site, file, ran):
    other = changed(file, "method: paragraphs}", "method: paragraphs, size: 2}")
    steps = told(site, "plan", other)
    stale = {step["asset"]: step["stale"] for step in steps if step["stale"]}
    # The plan itself has cut the documents into chunks.
    assert stale == {"contextualized_chunks": 4, "vector_index": 4}
    # Of each document the topic is known.
    (contexts,) = (step for step in steps if step["asset"] == "contextualized_chunks")
    assert contexts["calls"] == 0


MISTAKES = [
    (
        "method: paragraphs}",
        "method: paragraphs, size: 0}",
        "chunkings.paragraphs.size: 0: Input should be greater than or equal to 1",
    ),
    (
        "provider: hashing",
        "provider: hash",
        "embeddings.hashing.provider: 'hash' is not one of: "
        + ", ".join(map(repr, sorted([*load_group(EMBEDDINGS), "hashing"]))),
    ),
    (
        "over: {method: spread}",
        "over: {method: context_aware}",
        "retrievers.staged.over.method: 'context_aware' is not one of: 'dense', 'hybrid', "
        "'learned', 'lexical', 'spread'",
    ),
    (
        "model: parrot",
        "modell: parrot",
        "chats.parrot.modell: unknown setting; allowed here: batch, batch_poll_seconds, "
        "context_window, max_output_tokens, model, provider, words",
    ),
]


def test_mistakes_are_named_as_those_of_built_in_ones(site, file):
    wrong = file
    for before, after, _ in MISTAKES:
        wrong = changed(wrong, before, after)
    refused = rag(site, "plan", wrong)
    assert refused.returncode == 2
    told = " ".join(refused.stderr.split())
    for *_, message in MISTAKES:
        assert message in told


def definitions(code: str) -> dict[str, tuple[int, str]]:
    """Return lines, and the code without docstrings, of each class and constant by its name."""
    found = {}
    for node in ast.parse(code).body:
        size = (node.end_lineno or 0) - node.lineno + 1
        for inner in ast.walk(node):
            if isinstance(inner, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(inner):
                inner.body = inner.body[1:]
        if isinstance(node, ast.ClassDef):
            found[node.name] = size, ast.dump(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = size, ast.dump(node)
        elif isinstance(node, ast.FunctionDef) and node.decorator_list:
            (mark,) = node.decorator_list
            assert isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute)
            assert isinstance(mark.func.value, ast.Name)
            lines, code = found[mark.func.value.id]  # a command of this application
            found[mark.func.value.id] = lines + size, code + ast.dump(node)
    return found


EXAMPLE = definitions((ROOT / "examples/plugin/rag_pipeline_example.py").read_text())
GUIDE = (ROOT / "docs/extending.md").read_text()


def test_each_kind_takes_less_than_thirty_lines():
    points = tomllib.loads((ROOT / "examples/plugin/pyproject.toml").read_text())["project"]
    named = {
        group: [target.partition(":")[2] for target in own.values()]
        for group, own in points["entry-points"].items()
    }
    groups = {value for name, value in vars(imports).items() if name.isupper()}
    assert set(named) == {group for group in groups if str(group).startswith("rag_pipeline.")}
    shown = [name for names in named.values() for name in names]
    assert {name: EXAMPLE[name][0] for name in shown if EXAMPLE[name][0] >= 30} == {}
    table = re.findall(r"(?m)^\| [\w ]+ \| `([\w.]+)` \| .* \| `(\w+)` \|$", GUIDE)
    assert sorted(table) == sorted((group, n) for group, names in named.items() for n in names)


def test_the_guide_shows_parts_of_the_example():
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", GUIDE)
    told: dict[str, tuple[int, str]] = {}
    for block in blocks:
        if not block.startswith(" "):
            told |= definitions(block)
    assert told
    for name, (_, code) in told.items():
        assert code == EXAMPLE[name][1], name


def test_the_first_plugin_is_followed_word_by_word(tmp_path):
    page = GUIDE.split("## Your first plugin")[1].split("\n## ")[0]
    block = r"`([\w.]+)`[^`]*:\n\n```\w+\n(.*?)^```"
    (folder,) = re.findall(r"new folder `(\w+)`", page)
    (tmp_path / folder).mkdir()
    for name, code in re.findall(block, page, re.S | re.M):
        (tmp_path / folder / name).write_text(code)
    assert len(list((tmp_path / folder).iterdir())) == 2
    (package,) = re.findall(r"`pip install -e (\w+)`", page)
    # As the page's command, but with no network and without changing this environment.
    options = "--quiet --no-index --no-deps --no-build-isolation --target".split()
    command = [sys.executable, "-m", "pip", "install", *options, "site", f"./{package}"]
    subprocess.run(command, check=True, cwd=tmp_path)
    (chunkings,) = re.findall(r"`chunkings: (\{.*\})`", page)
    write_documents(tmp_path / "documents", DOCUMENTS)
    config = {
        "corpus": "own", "documents": {"path": "documents"}, "store": "store",
        "chunkings": yaml.safe_load(chunkings),
        "embeddings": {"minilm": {"provider": "minilm"}}, "retrievers": {"d": {"method": "dense"}},
        "configurations": [{"chunking": "p", "embedding": "minilm", "retriever": "d"}],
    }  # fmt: skip
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"type": "rag_pipeline.RagPipeline", "attributes": config}))
    assert "4 documents loaded, " in done(tmp_path / "site", "plan", file)
    assert [*(tmp_path / "store").rglob("chunks.p.lance")]


def test_a_command_of_a_plugin_is_one_of_rags(site, file, ran):
    printed = done(site, "largest", file, "--number", "2").splitlines()
    by_length = sorted(DOCUMENTS, key=lambda name: -len(DOCUMENTS[name]))
    assert [line.split() for line in printed] == [
        [str(len(DOCUMENTS[name])), name] for name in by_length[:2]
    ]
    assert "largest" in done(site, "--help")
    assert "Print the longest documents" in done(site, "largest", "--help")
    missing = rag(site, "largest", "nowhere")
    assert missing.returncode == 2
    assert "no corpus is called 'nowhere' here" in " ".join(missing.stderr.split())
    assert rag(None, "largest", file).returncode == 2


def test_without_the_package_its_names_are_unknown(file):
    refused = rag(None, "plan", file)
    assert refused.returncode == 2
    assert "chunkings.paragraphs.method: 'paragraphs' is not one of: 'fixed'" in refused.stderr


def test_the_schema_knows_them(site, file):
    schema = json.loads(done(site, "schema"))
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(file.read_text()))) == []
    for right, bad in (
        ("dimensions: 256", "dimensions: 4"),
        ("over: {method: spread}", "over: {method: spread, per_document: 0}"),
        ("whole_chunk, contexts: 2", "whole_chunk, words: -1"),
        ("over: {method: spread}", "over: {method: context_aware, over: {method: dense}}"),
    ):
        wrong = yaml.safe_load(file.read_text().replace(right, bad))
        assert not validator.is_valid(wrong)
    assert "TopicContext" in schema["$defs"]


def test_the_plan_foresees_what_the_run_then_pays_for(site, file, ran):
    """Another model writes the topics, and a reranker that costs is new."""
    other = changed(file, "model: parrot}", "model: parrot, words: 5}")
    text = other.read_text().replace(
        "  evaluation:", "  rerankers: {shared: {method: shared_words}}\n  evaluation:"
    )
    text = text.replace('retriever: "*"}', "retriever: dense, reranker: shared}")
    other.write_text(text.replace(SERVED, "paragraphs.topic.hashing.dense.shared"))
    before = told(site, "costs", "-c", other)["groups"]
    plan = told(site, "plan", other)
    foreseen = {step["asset"]: step["asks"] for step in plan if step["model"]}
    assert foreseen == {"contextualized_chunks": len(DOCUMENTS), "reranking": len(QUERIES)}
    done(site, "run", other)
    after = told(site, "costs", "-c", other)["groups"]
    made = {
        name: own["calls"] - before.get(name, {"calls": 0})["calls"] for name, own in after.items()
    }
    assert made == {
        "contextualized_chunks paragraphs.topic": len(DOCUMENTS),
        "retrieval_run paragraphs.topic.hashing.dense.shared": len(QUERIES),
    }
    assert not any(step["runs"] for step in told(site, "plan", other))
