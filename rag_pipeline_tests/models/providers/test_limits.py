from pathlib import Path

from rag_pipeline.models.providers.limits import TokenCounter
from rag_pipeline.models.providers.minilm import load_tokenizer


def test_the_estimate_is_on_the_safe_side_of_a_tokenizer():
    prose = "The obligations of confidentiality last for five (5) years from the date. " * 20
    chinese = "保密义务自披露之日起持续五年。" * 20
    estimated = TokenCounter().count([prose, chinese])
    exact = [len(load_tokenizer(None).encode(text).ids) for text in (prose, chinese)]
    assert all(e >= x for e, x in zip(estimated, exact, strict=True))
    assert estimated[0] < 2 * exact[0]
    assert TokenCounter().count(["", "abc", "abcd", "é"]) == [0, 1, 2, 1]


def test_tokens_are_counted_exactly_where_the_tokenizer_is_given(tmp_path: Path):
    load_tokenizer(None).save(str(tmp_path / "tokenizer.json"))
    counter = TokenCounter(str(tmp_path / "tokenizer.json"))
    assert counter.exact
    assert counter.count(["hello world"]) == [4]  # with [CLS] and [SEP]
    assert counter.cut("hello big world", 4) == "hello big "
