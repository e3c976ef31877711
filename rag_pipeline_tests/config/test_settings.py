"""What makes rows stale, and the keys under which paid answers are kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_pipeline.config import CorpusConfig, Settings, fingerprint, load_config
from rag_pipeline.models.providers import open_embedder, open_scorer
from rag_pipeline.search.retrievers.hybrid import HybridRetriever
from rag_pipeline.search.staged import ContextAwareRetriever

HERE = Path(__file__).parent
CHATS = {
    "mini": "openai:api.openai.com:gpt-5.4-mini:0.0:7:1024",
    "own": "openai:http://127.0.0.1:1/v1:llama:None:None:1024",
}
EMBEDDERS = {
    "minilm": "minilm:all-MiniLM-L6-v2:w8a8:8199be6f699a:256",
    "tokens": "minilm:all-MiniLM-L6-v2:w8a8:8199be6f699a:256:tokens",
    "openai": "openai:https://api.openai.com/v1:text-embedding-3-small:256:whole",
    "other": "openai:http://127.0.0.1:1/v1:e5:384:whole",
    "voyage": "voyage:https://api.voyageai.com/v1:voyage-context-3:1024:32000",
}
SCORERS = {
    "voyage": "voyage:https://api.voyageai.com/v1:rerank-2.5:True",
    "cohere": "cohere:https://api.cohere.com/v2:rerank-v3.5:False",
    "jina": "jina:http://127.0.0.1:1/v1:jina-reranker-v2-base-multilingual:False",
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusConfig:
    shutil.copy(HERE / "every_variant.yaml", tmp_path / "corpus.yaml")
    (tmp_path / "queries.jsonl").write_text("")
    (tmp_path / "chunks.jsonl").write_text('{"document_id": "a.txt", "start": 0, "end": 2}\n')
    for variable in ("OPENAI_API_KEY", "VOYAGE_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
        monkeypatch.setenv(variable, "none")
    return load_config(tmp_path / "corpus.yaml")


def test_no_call_is_made_again_that_was_paid_before(config):
    chats = {name: settings.identity for name, settings in config.chats.items()}
    assert chats == CHATS
    opened = {name: open_embedder(config.embeddings[name]) for name in EMBEDDERS}
    assert {name: one.identity for name, one in opened.items()} == EMBEDDERS
    scorers = {name: open_scorer(config.rerankers[name]) for name in SCORERS}
    assert {name: one.identity for name, one in scorers.items()} == SCORERS


def test_code_that_settings_inside_of_settings_select_counts(monkeypatch: pytest.MonkeyPatch):
    over = HybridRetriever(method="hybrid")
    staged = ContextAwareRetriever(method="context_aware", over=over)
    before = fingerprint(staged)
    monkeypatch.setattr(HybridRetriever, "code_version", HybridRetriever.code_version + 1)
    assert fingerprint(staged) != before


def test_settings_inside_of_settings_are_left_out_as_those_outside():
    class Border(Settings):
        not_fingerprinted = frozenset({"seconds"})
        pattern: str = "x"
        seconds: float = 1.0
        keep: bool = False

    class Borders(Settings):
        first: Border = Border()
        others: tuple[Border, ...] = ()

    class Cuts(Settings):
        borders: Borders = Borders()

    def made(**border: object) -> str:
        borders = {"first": border, "others": [border]}
        return fingerprint(Cuts.model_validate({"borders": borders}))

    assert made(seconds=2.0) == made()
    assert len({made(), made(keep=True), made(pattern="y")}) == 3
    before = made()
    Border.code_version = 2
    assert made() != before


_SETS = """
from dataclasses import dataclass
from pydantic import BaseModel
from rag_pipeline.config.settings import Settings, fingerprint

class Words(BaseModel):
    kept: set[str]

@dataclass(frozen=True)
class Pair:
    both: frozenset[str]

class Cuts(Settings):
    left_out: frozenset[str]
    words: Words
    pairs: frozenset[Pair]

names = {"the", "a", "an", "of", "in", "on"}
pairs = {Pair(frozenset(names)), Pair(frozenset({"to", "by"}))}
cuts = Cuts(left_out=names, words=Words(kept=names), pairs=pairs)
print(fingerprint(cuts), list(names))
"""


def test_every_process_gives_settings_with_sets_the_same_fingerprint():
    told = [
        subprocess.check_output(
            [sys.executable, "-c", _SETS], env={**os.environ, "PYTHONHASHSEED": seed}, text=True
        ).split(maxsplit=1)
        for seed in ("1", "2")
    ]
    (one, order), (two, other) = told
    assert order != other
    assert one == two
