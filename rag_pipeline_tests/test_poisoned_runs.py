"""Runs whose models fail at one item of a hundred, whenever it is asked: none of them stops."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError, RagPipelineError
from rag_pipeline.evaluation.answers import load_answers
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.results import PRESENCE, RUN
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.planning import Step, is_incomplete, plan_step, steps
from rag_pipeline.release.candidate import gate_decision
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import (
    QUERIES,
    many_documents,
    rule,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.model_faults import Failure, Fault
from rag_pipeline_tests.testing.model_replies import Body, items_of
from rag_pipeline_tests.testing.model_server import serving


def is_poison(item: str) -> bool:
    return int.from_bytes(hashlib.sha256(item.encode()).digest()[:4]) % 30 == 0


def test_runs_with_a_few_percent_failing_items_end_with_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)

    def faults(path: str, body: Body) -> Failure:
        return Fault(500) if any(map(is_poison, items_of(path, body))) else None

    def answer(body: Body) -> str:
        return "YES" if "YES" in str(body["messages"]) else "It is of one part of the whole."

    with serving(answer, faults) as server:
        remote: dict[str, Any] = {"base_url": server.url, "patience_seconds": 1.0}
        file = write_corpus(
            tmp_path,
            chats={"small": {"provider": "openai", "model": "m", **remote}},
            contextualizers={"llm": {"method": "llm", "chat": "small"}},
            embeddings={
                "own": {"provider": "openai", "model": "e", "dimensions": 8, "max_texts": 4,
                        **remote},
            },
            retrievers={"hybrid": {"method": "hybrid", "k": 8}},
            rerankers={"jina": {"method": "jina", "model": "r", "candidates": 4, **remote}},
            evaluation={"relevance": {"judge": "llm", "chat": "small", "passages": 2}},
            gate={"maximum_missing_chunks": 0.9},
            configurations=[
                rule("all", "recursive_150", "llm", "own", "hybrid", reranker="jina")
            ],
        )  # fmt: skip
        documents = many_documents(10, "policy")
        releases = []
        for night in range(5):
            added = {f"d{2 * night + n:02d}.txt" for n in range(2)}
            write_documents(tmp_path / "documents", {name: documents[name] for name in added})
            workspace = Workspace(load_config(file))
            for step in steps(workspace.config):
                make(workspace, step)
            releases.append(Corpus.load(file).release().release_id)
            assert load_leaderboard(workspace).configurations

        tables = ("contextualized_chunks.recursive_150.llm", "vector_index.recursive_150.llm.own")
        uncontextualized, unembedded = (set(workspace.quarantine(t).state()) for t in tables)
        assert uncontextualized
        assert unembedded, "these are in the lexical index, and not found by it"
        missing = uncontextualized | unembedded
        reason = f"{len(missing)} of 14 documents are missing, because a model failed on them: "
        (told,) = [r for r in Corpus.load(file).release().reasons if r.startswith(reason)]
        assert set(told.removeprefix(reason).split(", ")) == missing
        assert len(set(releases)) == 5, "each run's documents came to be served"
        asked = {query for _, query, *_ in QUERIES}
        assert {count for item, count in server.billed.items() if item not in asked} == {1}
        assert not server.wasted


def test_a_release_lacks_many_chunks_only_if_the_corpus_file_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text is refused: its document of four or five chunks is missing, also at first."""
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)

    def faults(path: str, body: Body) -> Failure:
        return Fault(500) if any("180 euros" in t for t in items_of(path, body)) else None

    with serving(faults=faults) as server:
        remote = {"provider": "openai", "model": "e", "dimensions": 8, "base_url": server.url}
        settings: dict[str, Any] = {
            "embeddings": {"own": {**remote, "patience_seconds": 0.3}},
            "configurations": [rule("one", embedding="own")],
        }
        file = write_corpus(tmp_path, **settings)
        with pytest.raises(CheckFailedError) as refused:
            list(run(load_config(file)))
        chunks = Workspace(load_config(file)).chunks("recursive_150").open().to_arrow()
        documents = chunks.column("document_id").to_pylist()
        share = documents.count("policy/travel.md") / len(documents)
        assert f"These have {100 * share:.3g} % of the chunks" in str(refused.value)
        missing = "1 of 4 documents is missing, because a model failed on them: policy/travel.md"
        assert missing in str(refused.value)
        (enough,) = re.findall(r"chunks to (0\.\d+) in .*tiny\.yaml", str(refused.value))

        write_file(tmp_path, **settings, gate={"maximum_missing_chunks": share - 1e-9})
        assert not gate_decision(Workspace(load_config(file))).allowed
        for accepted in (share, float(enough)):
            write_file(tmp_path, **settings, gate={"maximum_missing_chunks": accepted})
            assert gate_decision(Workspace(load_config(file))).allowed
        list(run(load_config(file)))
        assert Corpus.load(file).release().pinned.rows == len(documents) * (1 - share)


@pytest.mark.parametrize("poison", ["query", "boosted query", "every query"])
def test_a_query_on_which_a_model_failed_is_repeated_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poison: str
) -> None:
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)
    query_id, query, *_ = QUERIES[3]
    is_broken = True

    def is_bad(text: str) -> bool:
        return text.startswith(query) and (len(text) > len(query)) == (poison == "boosted query")

    def faults(path: str, body: Body) -> Failure:
        return Fault(500) if is_broken and any(map(is_bad, items_of(path, body))) else None

    with serving(faults=faults) as server:
        remote = {"base_url": server.url, "patience_seconds": 0.3}
        file = write_corpus(
            tmp_path,
            embeddings={"own": {"provider": "openai", "model": "e", "dimensions": 8, **remote}},
            retrievers={
                "staged": {
                    "method": "context_aware", "over": {"method": "dense"}, "boosted_files": 1,
                }
            },
            configurations=[
                rule("one", embedding="own", retriever="staged")
            ],
        )  # fmt: skip
        if poison == "every query":
            lines = (tmp_path / "queries.jsonl").read_text().splitlines()
            (tmp_path / "queries.jsonl").write_text(lines[3])
        workspace = Workspace(load_config(file))
        wanted = steps(workspace.config)
        step = Step("retrieval_run", "one")
        place = wanted.index(step)
        for one in wanted[:place]:
            make(workspace, one)
        if poison == "every query":
            with pytest.raises(RagPipelineError, match="HTTP 500"):
                make(workspace, step)
            assert not RUN.note(workspace, "one")
            return

        make(workspace, step)
        failed = RUN.note(workspace, "one")
        (told,) = failed["not_searched"]
        assert told.startswith(f"{query_id}: ")
        found = {row["query_id"] for row in RUN.rows(workspace, "one")}
        assert (query_id in found) == (poison == "boosted query"), "found by the query itself"
        assert len(found | {query_id}) == len(QUERIES)
        assert is_incomplete(workspace, step)
        for one in wanted[place + 1 :]:
            make(workspace, one)
        assert Corpus.load(file).release()
        presence = {r["query_id"]: r["AnswerPresence@5"] for r in PRESENCE.rows(workspace, "one")}
        answer = load_answers(workspace, "one")[query_id]
        if poison == "query":
            assert presence[query_id] is answer is None, "not known, and no zero"
        else:
            assert presence[query_id] is not None
            assert answer is not None
        assert plan_step(workspace, step).must_run

        is_broken = False
        make(workspace, step)
        assert not RUN.note(workspace, "one")["not_searched"]
        assert RUN.digest(workspace, "one") != failed["digest"], "what is made of it is made anew"
        assert not plan_step(workspace, step).must_run
        assert max(server.billed.values()) == 1
