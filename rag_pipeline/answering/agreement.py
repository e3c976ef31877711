"""Measure how well the sentences of passages agree with a whole question.

A near miss shares its subject with a question, but no sentence agrees with all parts of it: with
the meaning, the words and the kind of fact that is asked for.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.naming import capitalized
from rag_pipeline.answering.reading import Floats, has_terms, is_across, multilingual
from rag_pipeline.answering.sentences import HEADING, Sentence, is_table_head, spans_of
from rag_pipeline.datamodels import ScoredChunk

_MOST_READ = 24
"""Maximum number of sentences of the first passages that the multilingual model reads."""
_SHARE, _FACT, _LENGTH = 0.08, 0.04, 0.05
"""The weights of the held words, of a fact of the right kind, and of the question's length.

They are relative to the cosine. A long question is rarely a near miss, and its words are rarely all
in one sentence. Chosen by `benchmarks.bench_silence` and on two mixed folders.
"""
_NAME = 0.5
"""The weight of a word that is a name or a number, relative to other words.

Near misses often name what the documents are about.
"""
_HELD_ACROSS, _CLOSER_ACROSS = 0.5, 0.01
"""The least share of held words in another language than the question's, and what is added there.
"""


def agreements(question: str, chunks: Sequence[ScoredChunk]) -> Floats:
    """Return for each chunk the highest agreement of a question with one of its sentences.

    The agreement is a weighted sum of

    - the cosine of the question to the sentence with its headings, by the multilingual model;
    - the share of the question's words that the sentence, its headings and its document's id hold;
    - 1 if the sentence states a fact of a kind that the question asks for, or if it asks for none;
    - the logarithm of the number of the question's words.

    The value is 0 for chunks without one of the first 24 sentences, and for all chunks if the model
    is not installed.
    """
    found, embed = np.zeros(len(chunks)), multilingual()
    read = list(islice(_sentences(chunks), _MOST_READ))
    if embed is None or not read:
        return found
    about = [f"{one.with_headings}\n{one.chunk.document_id}" for _, one in read]
    words = Words(question, about)
    names = words_of(" ".join(capitalized(question)))
    weights = {w: _NAME if w in names or w[0].isdecimal() else 1.0 for w in words.asked}
    total, kinds = sum(weights.values()), kinds_asked(question)
    values = embed([one.with_headings for _, one in read]) @ embed.asked(question)
    for (n, one), text, value in zip(read, about, values.tolist(), strict=True):
        held = sum(weights[word] for word in words.in_text(text)) / total if total else 1.0
        if is_across(question, one.chunk.text):
            held, value = max(held, _HELD_ACROSS), value + _CLOSER_ACROSS
        value += _SHARE * held + _FACT * states(one.text, kinds)
        found[n] = max(found[n], value + _LENGTH * math.log(max(total, 1.0)))
    return found


def _sentences(chunks: Sequence[ScoredChunk]) -> Iterator[tuple[int, Sentence]]:
    """Return the sentences of chunks, except headings, each with the number of its chunk."""
    seen = set()
    for n, chunk in enumerate(chunks):
        for start, end in spans_of(chunk.text):
            text, place = chunk.text[start:end], (chunk.document_id, chunk.start + start)
            is_above = HEADING.match(text) or is_table_head(chunk.text, start)
            if place not in seen and not is_above and has_terms(text):
                seen.add(place)
                yield n, Sentence(chunk, n + 1, place[1], text, 0.0)
