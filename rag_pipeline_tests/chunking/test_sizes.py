"""Chunks by tokens: no chunk of any text is longer than the model reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.markdown import MarkdownChunking
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.chunking.semantic import SemanticChunking
from rag_pipeline.chunking.windows import SentencesChunking
from rag_pipeline.config import parse_config
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import ConfigError
from rag_pipeline.models.providers.minilm import load_tokenizer
from rag_pipeline.models.providers.openai import OpenAIEmbedding
from rag_pipeline_tests.testing.chunking import Embedding
from rag_pipeline_tests.testing.corpora import attributes, write_documents

CHINESE = "本合同的保密义务自签署之日起三年内有效。任何一方可提前三十天书面通知终止合同。" * 40
METHODS = [
    RecursiveChunking(method="recursive", max_tokens=50),
    MarkdownChunking(method="markdown", max_tokens=50),
    SentencesChunking(method="sentences", max_tokens=50),
    SentencesChunking(method="sentences", max_characters=80, max_tokens=50),
    SentencesChunking(method="sentences", max_tokens=50, overlap=20),
    SemanticChunking(method="semantic", max_tokens=50, min_characters=0),
]


def constant_vectors(texts):
    return np.ones((len(texts), 2), np.float32)


def cut(text, method):
    return [c.text for c in chunk(Document("d", "", text), method, Embedding(constant_vectors))]


def tokens(text):
    return len(load_tokenizer().encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("method", METHODS)
def test_chinese_is_cut_to_tokens_at_sentences(method):
    chunks = cut(CHINESE, method)
    assert max(map(tokens, chunks)) <= 50
    assert all(c.endswith("。") for c in chunks)
    assert len(chunks) < 80, "two sentences fit into a chunk"


def test_six_hundred_chinese_characters_are_more_than_the_model_reads():
    assert tokens(CHINESE[:600]) > 256
    by_both = SentencesChunking(method="sentences", max_characters=600, max_tokens=200)
    assert max(map(tokens, cut(CHINESE, by_both))) <= 200


@settings(max_examples=30)
@given(st.text(alphabet="ab 。.\n|#本", max_size=300))
def test_no_chunk_exceeds_the_limit_and_all_of_the_text_is_in_one(text):
    for method in METHODS:
        chunks = cut(text, method)
        assert max(map(tokens, chunks), default=0) <= 52  # a cut within a word adds a token a side
        assert "".join("".join(chunks).split()).replace("#", "") or not text.strip("# \n|")
        if not getattr(method, "overlap", 0):
            assert "".join("".join(chunks).split()) == "".join(text.split())


@pytest.mark.parametrize("method", [METHODS[0], METHODS[2], METHODS[5]])
def test_rows_and_lines_of_code_are_whole(method):
    rows = [f"| Fee {n}. It is due. | {n} euros. Or more. |" for n in range(20)]
    code = [f"call({n}). then. stop(); // a. b." for n in range(20)]
    text = "\n".join(["Fees. They follow.", "", *rows, "", "```", *code, "```"])
    lines = {line for line in text.splitlines() if line}
    pieces = [line for c in cut(text, method) for line in c.splitlines() if line]
    assert set(rows) | set(code) <= set(pieces)
    assert set(pieces) - lines <= {"Fees.", "They follow."}


@pytest.mark.parametrize("method", METHODS[:4])
def test_a_heading_goes_with_what_follows(method):
    sections = [f"## Term {n}\n\n" + "It lasts for three years and a day. " * 4 for n in range(9)]
    chunks = cut("\n\n".join(sections), method)
    assert not [c for c in chunks if c.splitlines()[-1].startswith("#")]


def test_max_tokens_alone_leave_characters_out():
    by_tokens = RecursiveChunking(method="recursive", max_tokens=100)
    assert RecursiveChunking.model_validate(by_tokens.model_dump()) == by_tokens
    assert by_tokens.max_characters is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_characters": None}, "set max_characters or max_tokens"),
        ({"tokens_of": "minilm"}, "has no effect without max_tokens"),
    ],
)
def test_settings_that_say_nothing_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        RecursiveChunking(method="recursive", **settings)


def test_more_tokens_than_the_model_reads_are_refused(tmp_path):
    write_documents(tmp_path, {"documents/a.txt": "a", "queries.jsonl": ""})
    chunkings = {"recursive_150": {"method": "recursive", "max_tokens": 255}}
    config = parse_config(attributes(chunkings=chunkings), tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="255 exceeds the 254 tokens that the packaged model"):
        config.chunkings["recursive_150"].check(config)


def test_tokens_of_an_unknown_tokenizer_are_estimated():
    unknown = OpenAIEmbedding(provider="openai", model="text-embedding-3-small")
    assert unknown.token_starts("abcdefgh ij 本合").tolist() == [0, 4, 9, 12, 13]
