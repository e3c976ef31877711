"""Detect by rules for English and German whether a passage says the opposite of a statement.

A clause is negative if it has an odd number of negations: "not", "prohibited", "keine". A statement
is compared with the clauses of the passage that share the most terms with it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rag_pipeline.search.tokenization import default_tokenizer

_NEGATION = re.compile(
    r"\b(?:no(?!\.\s*\d)|not|never|neither|none|nobody|nothing|cannot|\w+n['’]t|"
    r"prohibit\w*|forbid\w*|forbade|bann?(?:ed|s)?|barred|excluded?|excludes|refrain\w*|abstain\w*|"
    r"refus\w+|reject\w*|den(?:y|ies|ied)|fail(?:s|ed)?|lack\w*|ceas(?:es?|ed)|waives?|waived|"
    r"discourag\w+|disabled?|disables|decreas\w+|hardly|rarely|scarcely|"
    r"kein\w*|nicht|nie|niemals|niemand\w*|weder|kaum|verboten\w*|untersag\w+|verweiger\w+|"
    r"ausgeschlossen\w*|ausschluss)\b"
)
_NO_NEGATION = re.compile(
    r"\bnot only\b|\bnicht nur\b|\bor not\b|\b(?:but )?not limited to\b|\bwithout limitation\b|"
    r"\bfails? to (?:comply|pay|perform)\b"
)
_LEAST = re.compile(
    r"\bno(?:t|thing)? (?:less|fewer|earlier|sooner) than\b|\bat least\b|\bminimum\b|"
    r"(?<!\bno )(?<!\bnot )\bmore than\b|"
    r"\bmindestens\b|\bmehr als\b|\bup to(?=(?: \S+){1,3} (?:before|prior to)\b)|"
    r"\buntil(?=(?: \S+){1,3} (?:before|prior to)\b)|\bbis(?=(?: \S+){1,3} vor\b)"
)
_MOST = re.compile(
    r"\bno(?:t|thing)? (?:more|greater|later|longer) than\b|\bat (?:the )?(?:most|latest)\b|"
    r"\bmaximum\b|\b(?:less|fewer) than\b|\bup to\b|\bwithin\b|\bhöchstens\b|\bweniger als\b|"
    r"\binnerhalb\b|\bbis zu\b"
)
_SIDE = re.compile(r"\b(?:(before|prior to)|after|following) (?:(?:the|a|an|its|any) )?(\w+)")
_ALL = re.compile(r"\b(?:all|every\w*|each|alle[nrs]?|jede[mnrs]?)\b")
_ONLY = re.compile(r"\b(?:only|solely|nur|ausschließlich|lediglich)\b")
_WITHOUT = r"without|with no|except|unless|other than|ohne|außer|es sei denn"
_ASIDE = re.compile(
    rf"\b(?P<no>{_WITHOUT})\b[^,;.]*|\b(?:if|when|where|provided|which|who|falls|wenn|sofern)\b[^,;.]*"
)
_BREAK = re.compile(
    r"[;:!?\n]|\.(?!\d)|\b(?:but|aber|sondern)\b|, (?:and|und|or|oder)\b|"
    r"\b(?:and|or)(?= (?:shall|may|must|will|can|is|are|does|do|has|have)\b)|"
    r",(?= (?:the|each|either|neither|no|it|they|we|you|der|die|das)\b)"
)
_NEGATING = re.compile(r"(?:un|in|il|im|ir|non-?|dis)(?=\w{4})")


class _Clause(NamedTuple):
    text: str
    terms: frozenset[str]
    negative: bool
    restricted: bool
    """Whether the clause has "only" or an exception."""


def contradicts(passage: str, statement: str) -> bool:
    """Return whether the clauses of a passage closest to a statement say the opposite.

    Opposite clauses differ by a negation, by "at least" and "at most", by "before" and "after" the
    same event, or by "all" and "only".
    """
    said, held = statement.casefold(), passage.casefold()
    held_clauses = list(_clauses(held, said))
    for clause in _clauses(said, held):
        shared = [len(clause.terms & other.terms) for other in held_clauses]
        most = max(shared, default=0)
        if not clause.terms or 3 * most < 2 * len(clause.terms) - 1:
            continue
        closest = [c for c, n in zip(held_clauses, shared, strict=True) if n == most]
        if all(_is_opposite(clause, other) for other in closest):
            return True
    return False


def _is_opposite(one: _Clause, other: _Clause) -> bool:
    sides = [{word: bool(early) for early, word in _SIDE.findall(c.text)} for c in (one, other)]
    return (
        (
            one.negative != other.negative
            and not (one.restricted and (one.negative or other.restricted))
        )
        or {*_bounds(one.text), *_bounds(other.text)} == {"least", "most"}
        or any(sides[1].get(word, early) != early for word, early in sides[0].items())
        or bool(_ALL.search(one.text) and _ONLY.search(other.text) and not _ONLY.search(one.text))
    )


def _bounds(text: str) -> Iterator[str]:
    rest = _LEAST.sub(" ", text)
    if rest != text:
        yield "least"
    if _MOST.search(rest):
        yield "most"


def _clauses(text: str, other: str) -> Iterator[_Clause]:
    """Yield the clauses of a text. A phrase such as "without a key" is a separate clause."""
    words = set(re.findall(r"\w+", other))
    for part in _BREAK.split(_NO_NEGATION.sub(" ", text)):
        asides = list(_ASIDE.finditer(part))
        excepts = any(aside["no"] in ("except", "other than", "außer") for aside in asides)
        main = _clause(_ASIDE.sub(" ", part), words, False, excepts)
        yield main
        for aside in asides:
            begin = aside.end("no") if aside["no"] else aside.start()
            # "Not … without consent" is a double negation.
            negative = bool(aside["no"]) and not main.negative
            yield _clause(part[begin : aside.end()], words, negative, False)


def _clause(text: str, words: set[str], negative: bool, excepts: bool) -> _Clause:
    without_bounds = _MOST.sub(" ", _LEAST.sub(" ", text))
    number = len(_NEGATION.findall(without_bounds)) + negative
    # "unsafe" is a negation of "safe" in the other text.
    number += sum(
        _NEGATING.sub("", word, count=1) in words - {word}
        for word in re.findall(r"[\w-]+", text)
        if _NEGATING.match(word)
    )
    terms = frozenset(default_tokenizer().tokenize(text))
    return _Clause(text, terms, number % 2 == 1, excepts or bool(_ONLY.search(text)))
