"""Fingerprints and call keys of an earlier version, which stores in use were built under."""

import json
import shutil
from pathlib import Path

import pytest

from rag_pipeline.config import (
    ContextAwareRetriever,
    CorpusConfig,
    HybridRetriever,
    Settings,
    fingerprint,
    load_config,
)
from rag_pipeline.models.providers import open_embedder, open_scorer

HERE = Path(__file__).parent
EARLIER = json.loads((HERE / "fingerprints.json").read_text())


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusConfig:
    shutil.copy(HERE / "every_variant.yaml", tmp_path / "corpus.yaml")
    (tmp_path / "queries.jsonl").write_text("")
    (tmp_path / "chunks.jsonl").write_text('{"document_id": "a.txt", "start": 0, "end": 2}\n')
    for variable in ("OPENAI_API_KEY", "VOYAGE_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
        monkeypatch.setenv(variable, "none")
    return load_config(tmp_path / "corpus.yaml")


def test_no_step_is_stale_that_was_current_before(config):
    now = {
        "chunks": {name: config.chunks_fingerprint(name) for name in config.chunkings},
        "contexts": {k: config.context_fingerprint(*k.split(".")) for k in EARLIER["contexts"]},
        "vectors": {k: config.vector_fingerprint(*k.split(".")) for k in EARLIER["vectors"]},
        "lexical": {k: config.lexical_fingerprint(*k.split(".")) for k in EARLIER["lexical"]},
        "retrievers": {name: fingerprint(one) for name, one in config.retrievers.items()},
        "rerankers": {name: fingerprint(*config.reranker_parts(name)) for name in config.rerankers},
    }
    assert now == {stage: EARLIER[stage] for stage in now}


def test_no_call_is_made_again_that_was_paid_before(config):
    chats = {name: settings.identity for name, settings in config.chats.items()}
    assert chats == EARLIER["chats"]
    opened = {name: open_embedder(config.embeddings[name]) for name in EARLIER["embedders"]}
    assert {name: one.identity for name, one in opened.items()} == EARLIER["embedders"]
    scorers = {name: open_scorer(config.rerankers[name]) for name in EARLIER["scorers"]}
    assert {name: one.identity for name, one in scorers.items()} == EARLIER["scorers"]


def test_code_that_settings_inside_of_settings_select_counts(monkeypatch: pytest.MonkeyPatch):
    over = HybridRetriever(method="hybrid")
    staged = ContextAwareRetriever(method="context_aware", over=over)
    before = fingerprint(staged)
    monkeypatch.setattr(HybridRetriever, "code_version", HybridRetriever.code_version + 1)
    assert fingerprint(staged) != before


def test_settings_of_a_later_version_count_once_they_are_set():
    plain = HybridRetriever(method="hybrid")
    varied = plain.model_copy(update={"most_per_document": 3})
    staged = [ContextAwareRetriever(method="context_aware", over=o) for o in (plain, varied)]
    assert fingerprint(plain) != fingerprint(varied)
    assert fingerprint(staged[0]) != fingerprint(staged[1])


def test_settings_inside_of_settings_are_left_out_as_those_outside():
    class Border(Settings):
        operational = frozenset({"seconds"})
        added = frozenset({"keep"})
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

    assert made(seconds=2.0) == made(keep=False) == made()
    assert len({made(), made(keep=True), made(pattern="y")}) == 3
    before = made()
    Border.code_version = 2
    assert made() != before
