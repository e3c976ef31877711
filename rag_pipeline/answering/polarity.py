"""Detect by rules for English and German whether a passage says the opposite of a statement.

A clause of the statement is compared with the clauses of the passage that share the most words with
it. Conditions are compared with conditions.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rag_pipeline.answering.clauses import ALL, LIGHT, MODAL, ONLY, SOME, Clause, clauses
from rag_pipeline.answering.quantities.facts import facts, number_of, plain
from rag_pipeline.answering.quantities.numbers import FactValue
from rag_pipeline.answering.quantities.values import Quantity, bound_of
from rag_pipeline.answering.reading import SentenceEmbed
from rag_pipeline.answering.words import WORD, same_word, sense_of, stems

_FROM = re.compile(
    r"(?i)\b(?:after|from|following|since|(?:high|long|larg|great)er than|nach|ab|"
    r"seit|über)\s+(?:the |dem |der )?$"
)
_TO = re.compile(
    r"(?i)\b(?:before|until|by|prior to|(?:low|short|small)er than|vor|bis|"
    r"unter)\s+(?:the |dem |der |zum )?$"
)
_MORE = re.compile(
    r"(?i)(?: \w+)?\s+(?:or|and) (?:above|over|older)\b|\s+(?:oder|und) (?:darüber|älter|mehr)\b|"
    r"\s+nicht unterschreit"
)
_LESS = re.compile(
    r"(?i)(?: \w+)?\s+(?:or|and) (?:below|under|younger)\b|"
    r"\s+(?:oder|und) (?:darunter|jünger)\b|\s+nicht (?:übersteig|überschreit)"
)
_LAST = re.compile(
    r"(?i)\b(?:up to|until|as late as|no later than|at the latest|bis(?: zu)?|spätestens)\s+$"
)
_BEFORE = re.compile(r"(?i)\s+(?:before|prior to|vor)\b")
_SIDES = {
    "before": r"before|prior to|until|vor|bis",
    "after": r"after|following|upon|nach|seit",
    "during": r"during|while|während",
    "above": r"above|exceed(?:s|ed|ing)?|über",
    "below": r"below|beneath|unter",
}
_SIDE = re.compile(
    r"\b(?:" + "|".join(f"(?P<{side}>{words})" for side, words in _SIDES.items()) + r")\b"
    r"(?P<event>(?: [^\W\d]+){1,6})"
)
_FEW = re.compile(r"\b(?:some|several|sometimes|einige\w*|manche\w*|manchmal|teilweise)\b")
"""Words of a part that says nothing about the rest."""
_DUTY = re.compile(
    r"\b(?:must|ha(?:s|ve) to|needs? to|(?:required|obliged|compelled) to|is required|"
    r"are required|mandatory|compulsory|muss|müssen|verpflichtet|verpflichtend|zwingend)\b"
)
_OPTION = re.compile(
    r"\b(?:may|can|optional(?:ly)?|voluntary|allowed|permitted|free to|darf|dürfen|kann|können|"
    r"freiwillig|erlaubt|gestattet)\b"
)
_YES_OR_NO = re.compile(
    r"(?i)\W*(?:may|can|could|must|shall|should|is|are|were|do|does|did|has|have|will|would|"
    r"darf|dürfen|kann|können|muss|müssen|soll|sollen|ist|sind|hat|haben|wird|werden|gibt|"
    r"est-ce qu\w*|puis-je|peut|peuvent|peux|pouvons|faut-il|doit|doivent|dois|devons|y a-t-il|"
    r"puedo|puede|pueden|podemos|debe|deben|hay)\b"
)
_NOUN = re.compile(r"[\s-]*([^\W\d]+)")
_SIMILAR = 0.8
"""Least cosine of clauses in two languages that are compared."""
_TIED = 0.01
"""Difference of cosines below which two clauses are equally close."""
_ALLOWED = frozenset(map(sense_of, ("allow", "forbid")))
"""Senses of words that allow or deny all that their clause is about."""
_LEAST_SHARED = 0.6
"""Least share of a clause's words that a clause of the passage has, to be compared."""
_LEAST_OF_LONG = 0.8
"""The same for a clause of the passage with more than twice as many words."""


def contradicts(passage: str, statement: str, embed: SentenceEmbed | None = None) -> bool:
    """Return whether the clauses of a passage that are closest to a statement say the opposite.

    Opposite clauses differ by a negation or by opposite words. Opposites are also "at least" and
    "at most", "before" and "after" the same event, or "all" and "some" or "only". For a statement
    in another language, `embed` gives vectors. Then the most similar clauses are the closest ones.
    """
    said, held = statement.lower(), passage.lower()  # "ß" stays "ß"
    all_words = WORD.findall(held)
    held_clauses = [clause for clause in clauses(held, said) if clause.words]
    opposite = {True: False, False: False}
    for clause in clauses(said, held):
        alike = [c for c in held_clauses if c.is_condition == clause.is_condition]
        if clause.words and alike and not (clause.negative and clause.excepted):
            closest = (
                _most_similar(clause, alike, embed) if embed else _closest(clause, alike, all_words)
            )
            opposite[clause.is_condition] |= bool(closest) and all(
                _is_opposite(clause, other, focused=embed is None) for other in closest
            )
    # "No vote is needed if nobody objects" follows from "a vote is needed only if one objects".
    return opposite[False] != opposite[True]


def bounded_as(question: str, text: str) -> int:
    """Return 1 if a text has a quantity of a question with the same bound, such as "over 5 kg".

    Return -1 if the text has only the opposite bound, such as "up to 5 kg". Return 0 otherwise, and
    for yes-or-no questions, because an opposite bound answers "May we store over 5 kg?".
    """
    asked = _named_limits(question)
    held = _named_limits(text) if asked else []
    same = {
        bound == other
        for value, noun, bound in asked
        for known, its_noun, other in held
        if value == known and (noun == its_noun or not (noun and its_noun))
    }
    return 1 if True in same else -1 if same and not _YES_OR_NO.match(question) else 0


@lru_cache(maxsize=2_000)
def _named_limits(text: str) -> list[tuple[FactValue, str, str]]:
    """Return the value, the noun and the bound of each bounded quantity. Units need no noun."""
    text, named = plain(text), []
    for quantity, bound in _limits(text):
        noun = _NOUN.match(text, quantity.end) if quantity.value[0] == "number" else None
        named.append((quantity.value, noun[1].casefold() if noun else "", bound))
    return named


def _closest(clause: Clause, held: Sequence[Clause], passage: Sequence[str]) -> list[Clause]:
    """Return the clauses that share the most words with a clause and have the fewest others."""
    shared = [
        _shared(clause.words, other.words)
        if _shared(other.exception[:2], clause.words) == len(other.exception[:2])
        and not (clause.exception and other.excepted)  # both have an exception
        else 0
        for other in held
    ]
    most = max(shared)
    # The verb may be another one with a sense of its own: "possible" and "excluded".
    known = [w for w in clause.words if w not in LIGHT]
    known = [w for w in known if not sense_of(w) or _shared([w], passage)]
    closest = [c for c, n in zip(held, shared, strict=True) if n == most]
    own = [len(c.words) - len(c.exception) for c in closest]
    closest = [c for c, n in zip(closest, own, strict=True) if n == min(own)]
    is_long = min(len(c.words) for c in closest) > 2 * len(clause.words)
    is_close = most >= (_LEAST_OF_LONG if is_long else _LEAST_SHARED) * len(known)
    return closest if most and is_close else []


def _most_similar(clause: Clause, held: Sequence[Clause], embed: SentenceEmbed) -> list[Clause]:
    vectors = embed([clause.text, *(other.text for other in held)])
    alike = vectors[1:] @ vectors[0]
    least = max(_SIMILAR, alike.max() - _TIED)
    return [c for c, a in zip(held, alike, strict=True) if a >= least]


def _shared(words: Sequence[str], others: Sequence[str]) -> int:
    return sum(any(same_word(word, other) for other in others) for word in words)


def _is_opposite(one: Clause, other: Clause, focused: bool = True) -> bool:
    side = _on_other_side(one.text, other.text, focused)
    differs = (one.negative != other.negative) ^ _has_opposite(one.words, other.words)
    denying, denied = (one, other) if one.negative else (other, one)
    if (
        focused
        and not side
        and one.negative != other.negative
        and not _ALLOWED.intersection(filter(None, map(sense_of, denying.words)))
        and not any(same_word(word, held) for word in denying.denied for held in _predicate(denied))
    ):
        differs = False  # The negation is about something else.
    counts = [{q.value for q in facts(c.text) if number_of(q.value)} for c in (one, other)]
    if all(counts) and counts[0].isdisjoint(counts[1]):
        differs = False  # Two counts tell of two groups: "forty may" and "sixty may not".
    if (SOME.search(one.text) and other.restricted) or (
        _FEW.search(one.text) and _FEW.search(other.text)
    ):
        differs = False
    if one.negative and other.restricted and _shared(one.words, other.words) < len(one.words):
        differs = False  # "Only members may" and "guests may not".
    # "More than eight may not" is "no more than eight may".
    differs ^= _is_bounded_otherwise(one.text, other.text) or side
    return (
        (differs and not (one.restricted and (one.negative or other.restricted)))
        or _has_other_modal(one, other)
        or bool(
            ALL.search(one.text)
            and not ONLY.search(one.text)
            and (
                ONLY.search(other.text)
                or SOME.search(other.text)
                or (
                    other.conditional
                    and not one.conditional
                    and _shared(one.words, other.words) == len(one.words)
                )
            )
        )
    )


def _has_other_modal(one: Clause, other: Clause) -> bool:
    """Return whether one clause is a duty and the other only a permission."""
    if one.negative or other.negative or one.restricted or other.restricted:
        return False
    duty, option = ([bool(p.search(c.text)) for c in (one, other)] for p in (_DUTY, _OPTION))
    return duty == option[::-1] and duty[0] != duty[1]


def _predicate(clause: Clause) -> tuple[str, ...]:
    """Return the content words after the first modal verb, or all if fewer than two follow it."""
    modal = MODAL.search(clause.text)
    rest = set(WORD.findall(clause.text[modal.end() :])) if modal else set()
    words = tuple(word for word in clause.words if word in rest)
    return words if len(words) > 1 else clause.words


def _has_opposite(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether an odd number of words has only its opposite in the other clause."""
    one, other = (
        {(s.group, s.side) for w in ws if (s := sense_of(w)) and not s.negates and w not in both}
        for ws, both in ((words, others), (others, words))
    )
    groups = {group for group, _ in one} & {group for group, _ in other}
    return (
        sum(
            {s for g, s in one if g == n}.isdisjoint({s for g, s in other if g == n})
            for n in groups
        )
        % 2
        == 1
    )


def _on_other_side(one: str, other: str, focused: bool) -> bool:
    """Return whether something is before an event in one clause and after it in the other.

    If `focused` is False, the clauses are in two languages. Then their events count as the same if
    each clause has only one.
    """
    sides, others = list(_sides(one)), list(_sides(other))
    return any(
        side != at
        and (
            any(same_word(a, b) for a in event for b in place)
            if focused
            else len(sides) == len(others) == 1
        )
        for side, event in sides
        for at, place in others
    )


def _sides(text: str) -> Iterator[tuple[str, list[str]]]:
    for found in _SIDE.finditer(text):
        words = [word for word in WORD.findall(found["event"]) if stems(word)]
        if words:
            yield next(side for side in _SIDES if found[side]), words[:3]


def _is_bounded_otherwise(one: str, other: str) -> bool:
    """Return whether a quantity is a minimum in one clause and a maximum in the other."""
    limits, others = ({q.value: bound for q, bound in _limits(text)} for text in (one, other))
    both = limits.keys() & others.keys()
    if any(limits[value] != others[value] for value in both):
        return True
    # A bound that both have is about the same thing, and another may be about another thing.
    return not both and any(
        least == "least" != most
        and value[0] == end[0]
        and (number_of(value) or 0) > (number_of(end) or 0)
        for ones, twos in ((limits, others), (others, limits))
        for value, least in ones.items()
        for end, most in twos.items()
    )


def _limits(text: str) -> Iterator[tuple[Quantity, str]]:
    """Yield the bounded quantities of a text, each with its bound, "least" or "most"."""
    for quantity in facts(text):
        before, after = text[: quantity.start], text[quantity.end :]
        bound = bound_of(text, quantity)
        for side, ahead, behind in (("least", _FROM, _MORE), ("most", _TO, _LESS)):
            bound = bound or (side if ahead.search(before) or behind.match(after) else "")
        if bound == "most" and _LAST.search(before) and _BEFORE.match(after):
            bound = "least"  # "up to two days before"
        if bound:
            yield quantity, bound
