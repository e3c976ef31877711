"""Broken words are made whole, and compounds stay compounds."""

import pytest

from rag_pipeline.loading.pdf.hyphens import Hyphens


@pytest.mark.parametrize(
    ("lines", "before", "after", "whole"),
    [
        ([], "the infor-", "mation theory", "the information theory"),
        (["we use fine-tuning here"], "then fine-", "tuning helps", "then fine-tuning helps"),
        ([], "a state-of-the-", "art model", "a state-of-the-art model"),
        ([], "the Transformer-", "XL model", "the Transformer-XL model"),
        ([], "GPT-", "3 writes", "GPT-3 writes"),
        ([], "NO LIABILITY EX-", "CEEDS THE FEES", "NO LIABILITY EXCEEDS THE FEES"),
        ([], "A NON-", "DISCLOSURE", "A NON-DISCLOSURE"),
        ([], "short-", "and long-term", "short- and long-term"),
        (["two pages", "one page"], "a two-", "page abstract", "a two-page abstract"),
        ([], "goes with-", "out saying", "goes without saying"),
        ([], "see https://example.org/", "papers now", "see https://example.org/papers now"),
        ([], "end of line", "and next", "end of line and next"),
    ],
)
def test_words_at_line_ends_are_joined(lines, before, after, whole):
    assert Hyphens(lines).joint(before, after) == whole
