"""Rank the sentences of passages, and measure how well each one agrees with a whole question.

A near miss is a passage with the subject of a question, but without the answer. None of its
sentences agrees with the question in meaning, words and kind of fact. The multilingual model reads
the likeliest sentences.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.answering.facts import states_asked
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.naming import capitalized
from rag_pipeline.answering.polarity import bounded_as
from rag_pipeline.answering.reading import Floats, differ, has_terms, multilingual, written_in
from rag_pipeline.answering.sentences import (
    HEADING,
    Sentence,
    is_address,
    is_table_head,
    spans_of,
)
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.loading.languages import language_of

_COMPARED, _BY_RANK = 12, 3
"""Maximum number of sentences that the model reads, and the number of these that ranks choose.

On two mixed folders, the answers are the same if the model reads all sentences. Ranks can choose
sentences in another language, where the words of the question do not occur.
"""
_WORDS, _MEANING, _PASSAGE, _STATES, _INCOMPLETE, _ACROSS = 6.6, 50.0, 5.6, 2.3, -1.7, 1.2
"""The weights of a sentence's score (see `ranked_sentences`).

They are fitted on two mixed folders. Weights from one folder find as many answers in the other.
"""
_BOUND = 3.0
"""Weight of a quantity with the bound of the question, such as "more than five litres"."""
_NAMES = 0.3
"""Weight of the names in a question, relative to its other words. Names often occur anywhere."""
_FEWEST = 3
"""Least number of sentences for a mean of their language. Otherwise the mean of all counts."""
_SHORT = 4
"""Least number of words of a whole sentence."""
_SHARE, _FACT, _LENGTH = 0.08, 0.04, 0.06
"""Weights in an agreement (see `ranked_sentences`): share of words, kind of fact, length.

The weights are relative to the cosine. A long question rarely has near misses, and one sentence
rarely has all its words. `benchmarks.bench_silence` and two mixed folders determine the weights.
"""
_SHORTEST = 3
"""Least length of a question in words. Questions such as "Where is the printer?" have fewer words.

Values of `_SHORTEST` and `_LENGTH` from one folder also improve the answers on another folder.
"""
_NAME, _ASKED = 0.5, 1.5
"""Weights of names and numbers, and of the first word that is neither, relative to other words.

Unanswerable questions often name a subject of the documents, and ask for a property that the
documents lack. The property is often the first word, as in "What is the salary of Ada Berg?".
"""
_HELD_ACROSS = 0.5
"""Least share of the question's words for a sentence in another language."""
_CLOSER_ACROSS = 0.01
"""Added to the cosine of a sentence in another language."""
_ROW = 0.04
"""Subtracted for a row of a table, because a row agrees with many questions about its table."""


class Agreed(NamedTuple):
    """The sentences of passages, likeliest first, with their scores for a question.

    `agreements` are 0 for sentences that the model has not read.
    """

    sentences: list[Sentence]
    scores: Floats
    agreements: Floats

    def of_chunks(self, number: int) -> Floats:
        """Return the highest agreement of the sentences of each chunk, shape (number,)."""
        found = np.zeros(number)
        np.maximum.at(found, [one.rank - 1 for one in self.sentences], self.agreements)
        return found


def ranked_sentences(
    question: str,
    chunks: Sequence[ScoredChunk],
    name_weight: float = _NAMES,
    by_meaning: bool = True,
) -> Agreed:
    """Return the sentences of ranked passages, likeliest first.

    The score of a sentence is a weighted sum of

    - the weight of the question's words in the sentence, its headings, the passage's context and
      the document's id; weights of names are multiplied by `name_weight`;
    - the cosine of the question to the sentence with its headings, minus the mean of its language,
      because cosines within a language are higher;
    - the score of its passage, relative to the best one;
    - 1 if it states a fact of a kind that the question asks for (see `states_asked`);
    - 1 if it is a question, a lead-in to a list, or has less than 4 words;
    - 1 if it is in another language. Its words do not count then;
    - 1 if it bounds a quantity as the question does. Sentences with the opposite bound are left out
      (see `bounded_as`).

    With `by_meaning`, the multilingual model reads 12 sentences if it is installed. 9 have the
    highest scores without the cosine, and the others are the first by rank. Unread sentences get
    the lowest cosine.

    The agreement of a sentence is a weighted sum of

    - the cosine;
    - the share of the question's words in the sentence, its headings and its document's id;
    - 1 if the sentence states a fact of the kind;
    - the logarithm of the number of the question's words, at least 3.

    Rows of tables agree less.
    """
    sides = [(one, bounded_as(question, one.with_units)) for one in _sentences(question, chunks)]
    read = [one for one, side in sides if side >= 0]
    if not read:
        return Agreed([], np.empty(0), np.empty(0))
    about = [f"{one.with_headings}\n{one.chunk.document_id}" for one in read]
    texts = [f"{text}\n{one.chunk.context}" for one, text in zip(read, about, strict=True)]
    words = Words(question, texts)
    names = words.in_text(" ".join(capitalized(question)))
    held = [words.in_text(text) for text in texts]
    shares = [words.share(own - names) + name_weight * words.share(own & names) for own in held]
    language = language_of(question)
    languages = np.array([written_in(one.chunk.text) for one in read])
    across = np.array([differ(language, one) for one in languages.tolist()])
    told = np.array([states_asked(question, one.with_units) for one in read], float)
    best = max(chunk.score for chunk in chunks)
    relative = [one.chunk.score / best if best > 0 else 0.0 for one in read]
    scores = _PASSAGE * np.array(relative) + _STATES * told
    scores += np.where(across, _ACROSS, _WORDS * words.held * np.array(shares))
    scores += _BOUND * np.array([side for _, side in sides if side >= 0])
    scores += _INCOMPLETE * np.array([_is_incomplete(one.text) for one in read])
    agreements = np.zeros(len(read))
    if by_meaning and (embed := multilingual()) is not None:
        by_score = np.argsort(-scores, kind="stable")[: _COMPARED - _BY_RANK].tolist()
        chosen = list(dict.fromkeys([*by_score, *range(len(read))]))[:_COMPARED]
        vectors = embed([read[n].with_headings for n in chosen])
        cosines = (vectors @ embed.asked(question)).astype(np.float64)
        above = cosines - _means(cosines, languages[chosen])
        scores += _MEANING * above.min()
        scores[chosen] += _MEANING * (above - above.min())
        weights = _weights(question, words)
        total = sum(weights.values())
        for n, cosine in zip(chosen, cosines.tolist(), strict=True):
            share = sum(weights[w] for w in words.in_text(about[n])) / total if total else 1.0
            if across[n]:
                share, cosine = max(share, _HELD_ACROSS), cosine + _CLOSER_ACROSS
            agreements[n] = cosine + _SHARE * share + _FACT * told[n] - _ROW * read[n].is_row
        agreements[chosen] += _LENGTH * math.log(max(len(weights), _SHORTEST))
    order = np.argsort(-scores, kind="stable")
    sentences = [replace(read[n], match=shares[n]) for n in order]
    return Agreed(sentences, scores[order], agreements[order])


def _means(cosines: Floats, languages: npt.NDArray[np.str_]) -> Floats:
    """Return for each cosine the mean of its language, or of all if the language has few."""
    means = np.full(len(cosines), cosines.mean())
    for language in {*languages.tolist()}:
        own = languages == language
        if np.count_nonzero(own) >= _FEWEST:
            means[own] = cosines[own].mean()
    return means


def _is_incomplete(text: str) -> bool:
    return text.rstrip("*_ ")[-1:] in ("?", ":") or len(text.split()) < _SHORT


def _weights(question: str, words: Words) -> dict[str, float]:
    names, low = words_of(" ".join(capitalized(question))), question.casefold()
    ordered = sorted(words.asked, key=lambda word: (low.find(word), word))
    weights = {w: _NAME if w in names or w[0].isdecimal() else 1.0 for w in ordered}
    first = next((word for word in ordered if weights[word] == 1.0), None)
    return weights | ({first: _ASKED} if first else {})


def _sentences(question: str, chunks: Sequence[ScoredChunk]) -> Iterator[Sentence]:
    """Yield the sentences of chunks, except headings and addresses (see `is_address`)."""
    seen = set()
    for rank, chunk in enumerate(chunks, 1):
        for start, end in spans_of(chunk):
            text, place = chunk.text[start:end], (chunk.document_id, chunk.start + start)
            is_above = HEADING.match(text) or is_table_head(chunk, start)
            if place in seen or is_above or is_address(question, chunk.document_id, text):
                continue
            if has_terms(text):
                seen.add(place)
                yield Sentence(chunk, rank, place[1], text, 0.0)
