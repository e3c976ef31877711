"""fastembed over the packaged MiniLM, and flashrank over a session that counts a word.

The models that they are made for can't be had without a network.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.config.models import InputType
from rag_pipeline.errors import ConfigError, TextTooLongError
from rag_pipeline.models.providers.fastembed_models import FastEmbedEmbedder, FastEmbedEmbedding
from rag_pipeline.models.providers.flashrank_models import FlashRankReranker, FlashRankScorer
from rag_pipeline.models.providers.minilm import _MODEL, MiniLM, load_tokenizer
from rag_pipeline.models.providers.packaged import packaged_file
from rag_pipeline.search.reranking.passages import RerankInput, score_passages

TEXTS = ["How long does confidentiality last?", "Five years.", "Flights are booked in economy."]
SPECIAL = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}


def write_tokenizer(folder: Path, length: int) -> None:
    folder.mkdir(parents=True)
    load_tokenizer(None).save(str(folder / "tokenizer.json"))
    files = {
        "tokenizer_config.json": {"model_max_length": length, "pad_token": "[PAD]"},
        "config.json": {"pad_token_id": 0},
        "special_tokens_map.json": SPECIAL,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


# --- fastembed ---


@pytest.fixture(scope="module")
def minilm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models") / "minilm"
    write_tokenizer(folder, 256)
    shutil.copy(packaged_file(*_MODEL), folder / "model.onnx")
    return folder


def fastembed(folder: Path, **changes: Any) -> Any:
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    settings = {"provider": "fastembed", "model": "my-minilm", "path": str(folder), **changes}
    return FastEmbedEmbedder(FastEmbedEmbedding.model_validate(settings))


@pytest.mark.parametrize("input_type", ["document", "query"])
def test_a_model_of_a_folder_embeds_as_it_does_elsewhere(
    minilm_folder: Path, input_type: InputType
) -> None:
    embedder = fastembed(minilm_folder, dimensions=384)
    (batch,) = embedder.batches(TEXTS)
    made = embedder.embed([TEXTS[i] for i in batch], input_type)
    expected = MiniLM().embed([TEXTS[i] for i in batch])
    assert (made * expected).sum(axis=1).min() > 0.998  # MiniLM rounds to 8 bits
    assert "my-minilm" in embedder.identity


def test_a_text_over_the_window_is_refused_unless_it_may_be_cut(minilm_folder: Path) -> None:
    long = "word " * 300
    with pytest.raises(TextTooLongError, match="more than the 256 tokens"):
        list(fastembed(minilm_folder, dimensions=384).batches(["short", long]))
    batches = fastembed(minilm_folder, dimensions=384, truncate=True).batches(["short", long])
    assert sorted(i for batch in batches for i in batch) == [0, 1]


def test_what_is_not_known_of_a_model_must_be_said(minilm_folder: Path) -> None:
    with pytest.raises(ConfigError, match="set `path` to its folder and `dimensions`"):
        _ = fastembed(minilm_folder).dimension
    with pytest.raises(ConfigError, match=r"no file other.onnx in"):
        fastembed(minilm_folder, model_file="other.onnx")
    with pytest.raises(ConfigError, match="its vectors have 384 dimensions, not 300"):
        _ = fastembed(minilm_folder, model="BAAI/bge-small-en-v1.5", dimensions=300).dimension
    assert fastembed(minilm_folder, model="BAAI/bge-small-en-v1.5").dimension == 384


# --- flashrank ---


class CountingSession:
    """A model whose logit of a row is the number of times the row has `notice`, less one."""

    def __init__(self, path: str) -> None:
        assert Path(path).read_bytes() == b"a model"
        self.token = load_tokenizer(None).token_to_id("notice")

    def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
        return [(inputs["input_ids"] == self.token).sum(axis=1, keepdims=True) - 1.0]


@pytest.fixture
def cross_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ranker = pytest.importorskip("flashrank.Ranker", reason="flashrank is not installed")
    monkeypatch.setattr(ranker.ort, "InferenceSession", CountingSession)
    folder = tmp_path / "ms-marco-MiniLM-L-12-v2"
    write_tokenizer(folder, 512)
    (folder / "flashrank-MiniLM-L-12-v2_Q.onnx").write_bytes(b"a model")
    return folder


def flashrank(folder: Path, **changes: Any) -> Any:
    settings = {"method": "flashrank", "path": str(folder), **changes}
    return FlashRankScorer(FlashRankReranker.model_validate(settings))


def test_a_cross_encoder_of_a_folder_scores_in_the_passages_order(
    cross_encoder: Path, cache: CallCache
) -> None:
    passages = ("no such thing", "notice notice", "one notice") * 20  # more than one batch
    own = flashrank(cross_encoder)
    (scores,) = score_passages([RerankInput("when?", passages)], own, cache)
    # the sigmoid of -1, 1 and 0
    assert scores == pytest.approx([0.268941, 0.731059, 0.5] * 20, abs=1e-5)


def test_a_passage_over_max_tokens_is_refused_unless_it_may_be_cut(cross_encoder: Path) -> None:
    long = "word " * 40
    with pytest.raises(TextTooLongError, match="more than max_tokens 32"):
        flashrank(cross_encoder, max_tokens=32).score("q", ["short", long])
    assert len(flashrank(cross_encoder, max_tokens=32, truncate=True).score("q", [long])) == 1


def test_a_folder_that_is_not_the_models_is_told(cross_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="is not the folder of ms-marco-MiniLM-L-12-v2"):
        _ = flashrank(tmp_path / "empty").identity
    with pytest.raises(ConfigError, match="model 'mine' is not one of: ms-marco-TinyBERT"):
        _ = flashrank(cross_encoder, model="mine").identity
