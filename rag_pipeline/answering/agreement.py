"""Measure how well the sentences of passages agree with a whole question.

A near miss shares its subject with a question, but no sentence agrees with all parts of it: with
the meaning, the words and the kind of fact that is asked for.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from rag_pipeline.answering.facts import NUMBER, kinds_asked, states
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.naming import capitalized
from rag_pipeline.answering.reading import Floats, differ, has_terms, multilingual, written_in
from rag_pipeline.answering.sentences import HEADING, Sentence, is_table_head, spans_of
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.imports import compiled
from rag_pipeline.loading.languages import language_of

_MOST_READ, _MOST_EMBEDDED = 24, 12
"""Maximum number of sentences of the first passages, and of those that the model reads.

It reads the sentences of the best ranked passages and of the most words and facts asked for. All 24
sentences gave the same shares of refused questions on two mixed folders.
"""
_RANK = 0.01
"""Subtracted for each rank of a passage where the sentences to read are chosen."""
_SHARE, _FACT, _LENGTH = 0.08, 0.04, 0.06
"""The weights of the held words, of a fact of the right kind, and of the question's length.

They are relative to the cosine. A long question is rarely a near miss, and its words are rarely all
in one sentence. Chosen by `benchmarks.bench_silence` and on two mixed folders.
"""
_SHORTEST = 3
"""The least number of words that counts. Short questions such as "Where is the printer?" have less.

Chosen with `_LENGTH` on each of two folders, and better on the other one, too.
"""
_NAME, _ASKED = 0.5, 1.5
"""The weights of names and numbers, and of the first word that is neither, relative to other words.

Near misses often name what the documents are about, and ask for something else of it: this is often
the first word, as in "What is the salary of Ada Berg?".
"""
_HELD_ACROSS = 0.5
"""The least share of held words where a sentence is in another language than the question."""
_CLOSER_ACROSS = 0.01
"""Added to the cosine there."""
_WHO = re.compile(r"(?i)\b(?:who|whom|whose|wer|wem|wen|qui|quién|chi|кто)\b")
_HOW_MANY = re.compile(
    r"(?i)\bhow (?:many|high|old|far|fast|heavy)\b|\b(?:combien|cuánt\w+|quant[ie]|сколько)\b|"
    r"\bwie (?:viele?|hoch|alt|schwer|weit|schnell|groß)\b"
)
_NAMED = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w-]{2,}")
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")


def agreements(question: str, chunks: Sequence[ScoredChunk]) -> Floats:
    """Return for each chunk the highest agreement of a question with one of its sentences.

    The agreement is a weighted sum of

    - the cosine of the question to the sentence with its headings, by the multilingual model;
    - the share of the question's words that the sentence, its headings and its document's id hold;
    - 1 if the sentence states a fact of a kind that the question asks for (see `states_asked`);
    - the logarithm of the number of the question's words, at least 3.

    Of the first 24 sentences, the model reads the 12 with the most other agreement. The value is 0
    for chunks without one of these, and for all chunks if the model is not installed.
    """
    found, embed = np.zeros(len(chunks)), multilingual()
    read = list(islice(_sentences(chunks), _MOST_READ))
    if embed is None or not read:
        return found
    about = [f"{one.with_headings}\n{one.chunk.document_id}" for _, one in read]
    words = Words(question, about)
    weights = _weights(question, words)
    total = sum(weights.values())
    language = language_of(question)
    told = np.full(len(read), _LENGTH * math.log(max(len(weights), _SHORTEST)))
    for place, ((_, one), text) in enumerate(zip(read, about, strict=True)):
        held = sum(weights[word] for word in words.in_text(text)) / total if total else 1.0
        if differ(language, written_in(one.chunk.text)):
            held = max(held, _HELD_ACROSS)
            told[place] += _CLOSER_ACROSS
        told[place] += _SHARE * held + _FACT * states_asked(question, one.with_units)
    ranks = np.array([n for n, _ in read])
    chosen = np.argsort(_RANK * ranks - told, kind="stable")[:_MOST_EMBEDDED]
    cosines = embed([read[place][1].with_headings for place in chosen]) @ embed.asked(question)
    np.maximum.at(found, ranks[chosen], cosines + told[chosen])
    return found


def _weights(question: str, words: Words) -> dict[str, float]:
    names, low = words_of(" ".join(capitalized(question))), question.casefold()
    ordered = sorted(words.asked, key=lambda word: (low.find(word), word))
    weights = {w: _NAME if w in names or w[0].isdecimal() else 1.0 for w in ordered}
    first = next((word for word in ordered if weights[word] == 1.0), None)
    return weights | ({first: _ASKED} if first else {})


def states_asked(question: str, sentence: str) -> bool:
    """Return whether a sentence states a fact of a kind that a question asks for.

    The kinds are those of `kinds_asked`, a name after "who", and a number after "how many". Names
    and numbers of the question do not count then. If it asks for no kind, return True.
    """
    asked = words_of(question)
    if _WHO.search(question):
        return any(word.casefold() not in asked for word in _NAMED.findall(sentence))
    kinds = [kind for kind in kinds_asked(question) if kind != "cause"]  # texts often imply it
    if kinds or not _HOW_MANY.search(question):
        return states(sentence, kinds)
    others = _NUMERAL.sub(lambda numeral: "" if numeral[0] in asked else numeral[0], sentence)
    return bool(compiled(NUMBER, re.IGNORECASE).search(others))


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
