"""Find words of a sentence that stand where the passage has another word.

A slot is the place of a noun, adjective or number between its neighbours: "the … must leave the
hall". A sentence is wrong if a slot of the passage has another word. Two nouns are exchanged if
each stands where the passage has the other, before and after the same verb.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rag_pipeline.answering.quantities.facts import facts
from rag_pipeline.answering.quantities.values import Quantity
from rag_pipeline.answering.words import are_opposite, same_word, stems

_TOKEN = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Nr|No)\.|\d+(?:[.,:]\d+)*|[^\W_]+(?:[-'’_.][^\W_]+)*|[.;:,!?\n()]"
)
_MARK = "|"
"""The token of every punctuation mark and of both ends of a text."""
_DETERMINERS = frozenset(
    "the a an this that these those its their his her your our my any each every no such "
    "der die das dem den des ein eine einen einem einer eines dies diese dieser dieses diesem "
    "diesen ihr ihre ihren ihrem sein seine seinen seinem jede jeder jedes jeden jedem alle "
    "kein keine keinen keinem keiner".split()
)
_LINKS = _DETERMINERS | set(
    "of in on at to from by with for under over between against per into within without before "
    "after during until via about and or than as only most some all both "
    "von vom zu zum zur mit bei beim für auf an am im in aus nach vor über unter gegen durch pro "
    "je ohne während bis und oder als nur ab seit um laut".split()
)
"""Words before a noun: articles, prepositions, conjunctions and quantifiers."""
_VERBS = frozenset(
    "may must shall can could will would should might need needs is are was were be been has have "
    "had do does did not cannot darf dürfen muss müssen kann können soll sollen wird werden wurde "
    "wurden ist sind war waren hat haben nicht".split()
)
_SUBJECTS = _VERBS | set("to i you he she it we they who which sie er es wir man".split())
"""Words before a verb."""
_DOER = frozenset("by von vom durch".split())
_PASSIVE = frozenset("is are was were be been wird werden wurde wurden worden".split())
_OTHER_ORDER = _PASSIVE | _DOER | set("and und or oder".split())
"""Words between two nouns. With them, the first noun may be the receiver of the action."""
_NO_SUBJECT = frozenset("den dem einen einem".split()) | _LINKS - _DETERMINERS
_TITLES = frozenset("mr. mrs. ms. mr mrs ms dr. prof. dr prof frau herr herrn".split())
_UNKNOWN, _MOVED, _DIGITS, _WEAK = 2.5, 3.0, 4.0, 2.0
"""Least scores of a slot for a word that the passage lacks, a word from another part, and digits.

The last score is for a word that the passage lacks if the slot's part has all other words."""
_COVERED = 0.75
"""Least share of the other words that the part of a slot has, for a word from another part."""


class _Token(NamedTuple):
    word: str
    """Case-folded, or `_MARK`."""
    is_upper: bool
    before: str
    """The word or mark before it, which may be an article."""
    after: str
    is_fact: bool
    """Whether it is in a quantity, which other rules compare."""
    part: int
    """Number of the part of the text, between two marks."""


class _Action(NamedTuple):
    doer: str
    between: list[str]
    link: str
    """The preposition before the receiver, or ""."""
    receiver: str


def is_misplaced(passage: str, sentence: str, right: Sequence[Quantity], german: bool) -> bool:
    """Return whether a slot of the passage has another word than the sentence.

    `right` are the quantities of the sentence that the passage has.
    """
    held, said = _tokens(passage, facts(passage)), _tokens(sentence, right)
    words = [token.word for token in said if _is_content(token.word)]
    for at, token in enumerate(said):
        is_digit = token.word[0].isdecimal()
        if (token.is_fact and not is_digit) or not _may_fill(token, german):
            continue
        rest = [word for word in words if word != token.word]
        same = [n for n, other in enumerate(held) if _is_same(token.word, other.word)]
        own = max((_score(said, at, held, n) for n in same), default=-1.0)
        for place, other in enumerate(held):
            if place in same or other.word[0].isdecimal() != is_digit:
                continue
            score = _score(said, at, held, place)
            if score < _WEAK or not _may_fill(other, german):
                continue
            share = _share(held, other.part, rest, bool(same))
            if is_digit:
                differs = not same and score >= _DIGITS
            elif not same:
                differs = share == 1 or (score >= _UNKNOWN and 2 * share >= 1)
            else:
                differs = (
                    score >= max(_MOVED, own + 1.5)
                    and share >= (1 if other.word in rest else _COVERED)
                    and (other.word in rest or not _has(rest, other.word))
                    and all(
                        held[n].part != other.part
                        and _share(held, held[n].part, rest, True) <= share
                        for n in same
                    )
                )
            if differs:
                return True
    return False


def _share(held: Sequence[_Token], part: int, words: Sequence[str], strict: bool) -> float:
    """Return the share of `words` that a part has. If `strict`, it is 0 if a number is missing."""
    own = [token.word for token in held if token.part == part]
    found = [_has(own, word) for word in words]
    lacks = strict and any(
        word[0].isdecimal() and not has for word, has in zip(words, found, strict=True)
    )
    return 0.0 if lacks or not words else sum(found) / len(words)


def is_exchanged(passage: str, sentence: str, across: bool) -> bool:
    """Return whether two nouns have changed places around the same verb.

    If `across`, the sentence is in another language. Then only names are compared, and no verbs.
    """
    held = _actions(_tokens(passage, facts(passage)), across)
    return any(
        _is_same(one.doer, other.receiver)
        and _is_same(one.receiver, other.doer)
        and (
            across or (one.link == other.link and any(_has(other.between, w) for w in one.between))
        )
        for one in _actions(_tokens(sentence, facts(sentence)), across)
        for other in held
    )


def _actions(tokens: Sequence[_Token], names: bool) -> list[_Action]:
    """Return the pairs of nouns (or `names` only) of a part that have content words between."""
    found = []
    for start, first in enumerate(tokens):
        if not _is_noun(first, names) or first.before in _NO_SUBJECT:
            continue
        for end in range(start + 2, len(tokens)):
            last, between = tokens[end], [token.word for token in tokens[start + 1 : end]]
            if last.part != first.part:
                break
            if not _is_noun(last, names):
                continue
            link = between[-1] if between[-1] in _LINKS else ""
            verbs = [word for word in between if _is_content(word) and word not in _VERBS]
            if verbs and link in _DOER and not _PASSIVE.isdisjoint(between):
                found.append(_Action(last.word, verbs, "", first.word))
            elif verbs and _OTHER_ORDER.isdisjoint(between[:-1] if link else between):
                found.append(_Action(first.word, verbs, link, last.word))
    return found


def _is_noun(token: _Token, is_name: bool) -> bool:
    if not _is_content(token.word) or token.is_fact:
        return False
    return token.is_upper or (not is_name and token.before in _DETERMINERS)


def _tokens(text: str, quantities: Sequence[Quantity]) -> list[_Token]:
    """Return the words, except articles, and the punctuation marks. A mark is at both ends."""
    own = (q for q in quantities if q.kind != "ORDINAL")
    taken = {place for q in own for place in range(q.start, q.end)}
    found = [(m[0] if m[0][0].isalnum() else _MARK, *m.span()) for m in _TOKEN.finditer(text)]
    last = -1
    made, part = [_Token(_MARK, False, "", "", False, 0)], 0
    words = [word.casefold() for word, _, _ in found]
    for n, (word, start, _) in enumerate(found):
        part += word == _MARK
        if words[n] in _DETERMINERS or (word == _MARK and made[-1].word == _MARK):
            continue
        is_fact = start in taken
        if word[0].isupper() and made[-1].is_upper and not is_fact and n == last + 1:
            # "Ms Ada Berg" is one noun.
            joined = f"{made[-1].word} {words[n]}"
            made[-1], last = made[-1]._replace(word=joined, after=[*words, _MARK][n + 1]), n
            continue
        last = n
        before, after = ([_MARK, *words][n], [*words, _MARK][n + 1])
        is_name = word[0].isupper() and not is_fact and words[n] not in _LINKS | _SUBJECTS
        made.append(_Token(words[n], is_name, before, after, is_fact, part))
    return [*made, _Token(_MARK, False, "", "", False, part)]


def _may_fill(token: _Token, german: bool) -> bool:
    """Return whether a noun, an adjective or a number may stand between a word's neighbours."""
    if not _is_content(token.word) or token.word in _VERBS or token.before in _SUBJECTS:
        return False
    if token.before in _LINKS or token.before == _MARK or token.before[0].isdecimal():
        return german or token.after not in _DETERMINERS
    return (
        token.is_upper if german else token.after in _VERBS or token.after in _LINKS - _DETERMINERS
    )


def _score(said: Sequence[_Token], at: int, held: Sequence[_Token], place: int) -> float:
    """Return how many of the next two neighbours on each side of two words match.

    Content words count twice. A second neighbour counts half, and only if the first one matches.
    """
    score = 0.0
    for step in (-1, 1):
        for distance in (1, 2):
            a, b = at + step * distance, place + step * distance
            if not (0 <= a < len(said) and 0 <= b < len(held)):
                break
            if not _is_same(said[a].word, held[b].word):
                break
            score += (2 if _is_content(said[a].word) else 1) / distance
    return score


def _has(words: Sequence[str], word: str) -> bool:
    return any(_is_same(word, held) for held in words)


def _is_content(word: str) -> bool:
    return word != _MARK and (word[0].isdecimal() or any(map(stems, word.split())))


@lru_cache(maxsize=100_000)
def _is_same(one: str, other: str) -> bool:
    """Return whether two words are the same, or are forms of one word but no opposites."""
    if one == other:
        return True
    if " " in one or " " in other:
        names, others = (set(name.split()) - _TITLES for name in (one, other))
        return any(_is_same(a, b) for a in names for b in others)
    if "-" in one and "-" in other:
        return all(map(_is_same, one.split("-"), other.split("-")))
    if one.rstrip("s").endswith("ee") != other.rstrip("s").endswith("ee"):
        return False  # employee, employment
    if not (_is_content(one) and _is_content(other)) or are_opposite(one, other):
        return False
    return same_word(one, other)
