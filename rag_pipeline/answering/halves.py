"""Split a question about two sides, or with two parts, into two questions.

"Who won the cup, and when?" has the questions "Who won the cup" and "when won the cup".
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.answering.intent import GREATER, compares, sides_in, uncompared
from rag_pipeline.answering.reading import has_terms
from rag_pipeline.imports import compiled

PREPOSITIONS = (
    "in im for at on from to of with by after before under für bei beim am auf ab um an seit von "
    "vom nach vor mit zu zum zur aus pour à en dans chez avec après avant para con por"
).split()
_JOIN = (
    r"[,;]?\s+(?:(?P<and>and|und|et|y)|(?P<or>or|oder|ou|o)|(?P<than>than|als|que)|vs\.?|"
    r"versus|(?:as )?compared (?:with|to)|(?:im )?Vergleich zu[mr]?|comparé\w* (?:à|avec))\s+"
)
_ASKING = (
    r"(?:what(?:['’]s)?|which|who[mse]*|when|where|why|how|was|we[rmn]|wessen|wann|warum|weshalb|"
    r"wo(?:hin|her|für|mit|von)?|wie\w*|welche\w?|qu(?:i|oi|and|el(?:le)?s?)|où|comment|combien|pourquoi|qué|"
    r"quién\w*|cuál\w*|cuánd?t?\w*|dónde|cómo)"
)
_BY_HOW_MUCH = (
    r"[,;]?\s+(?:and|und|et|y)\s+(?:by how much|how much (?:more|less|\w+er)|um wie ?viel|"
    r"de combien)\b.*"
)
_ARTICLE = r"(?:the|der|die|das|dem|den|des|le|la|les|el|los|las)"
_TOKEN = re.compile(r"[^\s,;:?!()]+|[,;:()]")
_BEFORE_SIDES = r"[,;:()]|between|zwischen|entre"
_LONGEST, _LONGEST_LAST = 6, 4
"""Maximum number of words of the first side from a word that the second side repeats, and from
punctuation."""
_FEWEST = 3
"""Least number of words of a first question that a second one shortens."""


class Halves(NamedTuple):
    """Two questions, each about one of two sides, or else each with one part of a question."""

    questions: tuple[str, str]
    are_sides: bool = True

    @property
    def common(self) -> str:
        """Return the words of both questions, in their order."""
        one, two = map(str.split, self.questions)
        return " ".join(word for word in one if word in two)


def halves(question: str) -> Halves | None:
    """Return the questions about each side or with each part of a question, or None."""
    question = " ".join(question.split())
    text = compiled(_BY_HOW_MUCH, re.IGNORECASE).sub("", question.rstrip(" ?!."))
    if sides := sides_in(question):
        (_, start), (last, place) = sides
        before, after = text[:start], text[place + len(last) :]
        first, second = (uncompared(f"{before}{side}{after}") for side, _ in sides)
        return Halves((first, second))
    is_compared = compares(question)
    is_graded = is_compared or bool(GREATER.search(text))
    for join in compiled(_JOIN, re.IGNORECASE).finditer(text):
        one = _TOKEN.findall(text[: join.start()])
        two = _TOKEN.findall(text[join.end() :])
        if not one or not two:
            continue
        if join["and"] and any(_is(_ASKING, word) for word in two[:2]):
            split, are_sides = _of_questions(one, two)
        else:
            asked = is_graded if join["or"] else is_compared or not join.lastgroup
            split, are_sides = _of_sides(one, two, join.lastgroup, asked), True
        if split:
            first, second = map(" ".join, split)
            if is_graded:
                first, second = uncompared(first), uncompared(second)
            return Halves((first, second), are_sides)
    return None


def _of_questions(
    one: list[str], two: list[str]
) -> tuple[tuple[list[str], list[str]] | None, bool]:
    """Return the two questions, and whether the second one only has another side than the first."""
    at = _place(one, two[0])
    if at and one[at - 1] not in ",;:" and _is(_ASKING, two[0]):
        return None, False  # a second relative clause
    if at is None or (at and one[at - 1] not in ",;:"):
        if any(map(has_terms, two)):
            return (one, [*two, "(", *one, ")"]), False
        lead = next((n for n, word in enumerate(one) if not _is(_ASKING, word)), 0)
        return (one, [*two, *one[lead:]]), False
    pairs = zip(one[at:], two, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if not _is_same(a, b)), len(two))
    rest = two[same - _is(_ARTICLE, two[same - 1]) :]
    if not rest or len(one) < _FEWEST:
        return None, False
    begin = _place(one, rest[0])
    if begin is None or begin <= at:
        return (one, [*one, *rest]), True
    return _exchanged(one, begin, rest, keeps=True), True


def _of_sides(
    one: list[str], two: list[str], join: str | None, is_asked: bool
) -> tuple[list[str], list[str]] | None:
    at = _place(one, two[0])
    is_before = two[0].casefold() in PREPOSITIONS
    is_near = at is not None and not any(_is(_BEFORE_SIDES, word) for word in one[at:])
    repeats = is_asked or (is_before and join != "or")
    if at is not None and is_near and len(one) - at <= _LONGEST and repeats:
        return _exchanged(one, at, two, keeps=join == "than")
    if not is_asked or (join == "than" and not is_before):
        return None
    if join == "than":
        return one, [*one, *two]
    marks = [n + 1 for n, word in enumerate(one) if _is(_BEFORE_SIDES, word)]
    is_last = bool(marks) and 0 < len(one) - marks[-1] <= _LONGEST_LAST
    begin = marks[-1] if is_last else len(one) - 1
    return _exchanged(one, begin, two, whole=join != "and")


def _exchanged(
    one: list[str], begin: int, two: list[str], keeps: bool = False, whole: bool = False
) -> tuple[list[str], list[str]]:
    """Return the words with the first side, which starts at `begin`, and with the second side.

    The second side has as many words as the first one, or with `whole` all words up to the next
    punctuation. Words after it are about both sides. `keeps` keeps those after the first side.
    """
    size = len(two) if whole else len(one) - begin
    end = min([n for n, word in enumerate(two) if word in ",;:()"] + [len(two), size])
    while end < len(two) and not any(map(has_terms, two[:end])):
        end += 1
    kept = one[begin + end :] if keeps else []
    return [*one, *two[end:]], [*one[:begin], *two[:end], *kept, *two[end:]]


def _place(words: Sequence[str], word: str) -> int | None:
    return next((n for n in reversed(range(len(words))) if _is_same(words[n], word)), None)


def _is_same(one: str, two: str) -> bool:
    return one.casefold() == two.casefold() or (_is(_ARTICLE, one) and _is(_ARTICLE, two))


def _is(pattern: str, word: str) -> bool:
    return bool(compiled(pattern, re.IGNORECASE).fullmatch(word))
