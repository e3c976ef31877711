"""Detect by rules for English and German whether a passage says the opposite of a statement.

A clause is negative if it has an odd number of negations: "not", "prohibited", "keine". A clause
of the statement is compared with the clauses of the passage that share the most words with it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_pipeline.answering.quantities.facts import facts, number_of
from rag_pipeline.answering.reading import SentenceEmbed
from rag_pipeline.answering.words import WORD, same_word, sense_of, stems
from rag_pipeline.imports import compiled

_NEGATION = re.compile(
    r"\b(?:no(?!\.\s*\d)|not|never|neither|nor|none|nobody|nothing|nowhere|cannot|\w+n['’]t|without|"
    r"hardly|rarely|scarcely|barely|unless|kein\w*|nicht|nichts|nie|niemals|niemand\w*|nirgends|"
    r"weder|kaum|ohne|keinesfalls|keineswegs|es sei denn)\b"
)
_NO_NEGATION = re.compile(
    r"\bnot only\b|\bnicht nur\b|\bor not\b|\b(?:but )?not limited to\b|\bwithout limitation\b|"
    r"\bfails? to (?:comply|pay|perform)\b|\bfor no other (?:purpose|reason)s?\b|"
    r"\bnicht zuletzt\b|\bnot to mention\b"
)
_NEITHER = re.compile(r"\b(neither|weder)\b([^.;]*?)\b(?:nor|noch)\b")
_REWORDED = {
    "cancelled": r"\b(?:(?:is|are|was|were|been) off|call(?:s|ed)? off)\b",
    "rejected": r"\bturn(?:s|ed)? down\b",
    "excluded": r"\brul(?:es?|ed) out\b|\b(?:left|leaves?) out\b",
    "gratis": r"\b(?:free of charge|at no (?:extra |additional )?(?:cost|charge)|for free)\b|"
    r"\bkoste[nt]+ nichts\b|(?<!-)\bfree\b(?! (?:to|from|of|time))(?!-)",
    "kostenpflichtig": r"\bcosts? extra\b|\bfor a fee\b|\bgegen (?:gebühr|aufpreis|entgelt)\b",
    "unter": r"\bnoch (?:nicht|keine?n?)(?= \S+ (?:jahr|monat|tag|woche))",
}
"""Wordings that have the sense of one word."""
_PARTICLES = frozenset(
    "ab an auf aus bei ein fest fort frei los mit nach statt vor weg zu zurück".split()
)
_LEAST = re.compile(
    r"\bno(?:t|thing)? (?:less|fewer|earlier|sooner) than\b|\bat least\b|\bminimum\b|"
    r"(?<!\bno )(?<!\bnot )\b(?:more than|exceeds?|over(?= \d))\b|\bor more\b|\boder mehr\b|"
    r"(?<!nicht )\bmehr als\b|\b(?:mindestens|wenigstens|frühestens)\b|"
    r"\bup to(?=(?: \S+){1,3} (?:before|prior to)\b)|"
    r"\buntil(?=(?: \S+){1,3} (?:before|prior to)\b)|\bbis(?=(?: \S+){1,3} vor\b)"
)
_MOST = re.compile(
    r"\bno(?:t|thing)? (?:more|greater|later|longer) than\b|\bat (?:the )?(?:most|latest)\b|"
    r"\bmaximum\b|\b(?:less|fewer) than\b|\bup to\b|\bwithin\b|\b(?:not|nicht) (?:to )?exceed\b|"
    r"\bor (?:less|fewer)\b|\boder weniger\b|"
    r"\b(?:höchstens|maximal|spätestens|innerhalb|binnen)\b|\bweniger als\b|\bbis zu\b|"
    r"\bnicht mehr als\b"
)
_LATE = re.compile(r"\b(?:late|overdue|verspätet|verzug)\b")
_SIDES = {
    "before": r"before|prior to|until|vor|bis",
    "after": r"after|following|upon|nach|seit",
    "during": r"during|while|während",
}
_SIDE = re.compile(
    r"\b(?:" + "|".join(f"(?P<{side}>{words})" for side, words in _SIDES.items()) + r")\b"
    r"(?P<event>(?: [^\W\d]+){1,4})"
)
_ALL = re.compile(
    r"\b(?:all|every\w*|each|always|alle[nrs]?|jede[mnrs]?|sämtliche\w*|stets|immer)\b"
)
_SOME = re.compile(
    r"\b(?:some|several|most|sometimes|occasionally|usually|einige\w*|manche\w*|manchmal|meiste\w*|"
    r"meist|teilweise|gelegentlich)\b"
)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschließlich|lediglich)\b")
_MODAL = re.compile(
    r"\b(?:shall|must|may|might|can|could|will|would|should|need|darf|dürfen|muss|müssen|kann|können|"
    r"soll|sollen|wird|werden)\b"
)
_NO_CONTENT = re.compile("|".join(p.pattern for p in (_NEGATION, _ALL, _SOME, _ONLY, _MODAL)))
_WITHOUT = (
    r"without|with no|except(?: for)?|unless|other than|apart from|ohne|außer|bis auf|es sei denn"
)
_ASIDE = re.compile(
    rf"\b(?P<no>{_WITHOUT})\b[^,;.]*|"
    r"\b(?:if|when|where|provided|which|who|falls|wenn|sofern|soweit)\b[^,;.]*"
)
_EXCEPTS = ("except", "except for", "other than", "apart from", "außer", "bis auf")
_BREAK = re.compile(
    r"[;!?\n]|[.:](?!\d)|,? (?=nor\b)|"
    r"\b(?:but|whereas|although|though|however|aber|sondern|jedoch|obwohl)\b|"
    r", (?:and|und|or|oder)\b|"
    r"\b(?:and|or)(?= (?:shall|may|must|will|can|is|are|does|do|has|have)\b)|"
    r",(?= (?:the|each|either|neither|no|it|they|we|you|der|die|das)\b)"
)
_PREFIX = re.compile(r"^(?:un|in|il|im|ir|non-?|dis|miss?|nicht-?)(?=\w{4})")
_SUFFIX = re.compile(r"(?<=\w{3})(?:less|los|frei)(?:e[mnrs]?)?$")


_LIGHT = frozenset(
    "right rights authority power circumstances event case way recht befugnis".split()
)
_SIMILAR = 0.84
"""Least cosine of clauses in two languages that are compared."""
_NEAR = 2
"""Number of content words after a negation that it may deny."""


class _Clause(NamedTuple):
    text: str
    words: tuple[str, ...]
    """Content words, without negations."""
    denied: tuple[str, ...]
    """Content words next to the negations, or all content words after "nobody" or "neither"."""
    negative: bool
    restricted: bool
    """Whether the clause has "only" or an exception."""


def contradicts(passage: str, statement: str, embed: SentenceEmbed | None = None) -> bool:
    """Return whether the clauses of a passage closest to a statement say the opposite.

    Opposite clauses differ by a negation or by opposite words. These are also "at least" and "at
    most", "before" and "after" the same event, or "all" and "some" or "only". With `embed`, the
    closest clause is the most similar one, for a statement in another language.
    """
    said, held = statement.casefold(), passage.casefold()
    held_clauses = [clause for clause in _clauses(held, said) if clause.words]
    for clause in _clauses(said, held):
        if not clause.words or not held_clauses:
            continue
        if embed is not None:
            vectors = embed([clause.text, *(other.text for other in held_clauses)])
            alike = vectors[1:] @ vectors[0]
            nearest = held_clauses[int(alike.argmax())]
            if alike.max() >= _SIMILAR and _is_opposite(clause, nearest, focused=False):
                return True
            continue
        shared = [_shared(clause, other) for other in held_clauses]
        most = max(shared)
        if not most or 3 * most < 2 * len(clause.words):
            continue
        closest = [c for c, n in zip(held_clauses, shared, strict=True) if n == most]
        if all(_is_opposite(clause, other) for other in closest) and not (
            clause.negative and _is_exception(clause, closest, held_clauses)
        ):
            return True
    return False


def _is_exception(clause: _Clause, closest: Sequence[_Clause], held: Sequence[_Clause]) -> bool:
    """Return whether a negative clause elsewhere is about a word that the closest clauses lack."""
    rest = [w for w in clause.words if not any(same_word(w, h) for c in closest for h in c.words)]
    return any(
        other.negative and same_word(w, h) for other in held for h in other.words for w in rest
    )


def _shared(one: _Clause, other: _Clause) -> int:
    return sum(any(same_word(word, held) for held in other.words) for word in one.words)


def _is_opposite(one: _Clause, other: _Clause, focused: bool = True) -> bool:
    differs = (one.negative != other.negative) ^ _has_opposite(one.words, other.words)
    denying, denied = (one, other) if one.negative else (other, one)
    if (
        focused
        and one.negative != other.negative
        and not any(same_word(word, held) for word in denying.denied for held in _predicate(denied))
    ):
        differs = False  # The negation is about something else.
    counts = [{q.value for q in facts(c.text) if number_of(q.value)} for c in (one, other)]
    if all(counts) and counts[0].isdisjoint(counts[1]):
        differs = False  # Two counts tell of two groups: "forty may" and "sixty may not".
    if _SOME.search(one.text) and other.restricted:
        differs = False
    return (
        (differs and not (one.restricted and (one.negative or other.restricted)))
        or (
            not (_LATE.search(one.text) or _LATE.search(other.text))
            and ([*_bounds(one.text)], [*_bounds(other.text)])
            in ((["least"], ["most"]), (["most"], ["least"]))
        )
        or _on_other_side(one.text, other.text)
        or bool(
            _ALL.search(one.text)
            and not _ONLY.search(one.text)
            and (_ONLY.search(other.text) or _SOME.search(other.text))
        )
    )


def _predicate(clause: _Clause) -> tuple[str, ...]:
    """Return the words after the first modal verb if there are two or more, else all words."""
    modal = _MODAL.search(clause.text)
    rest = set(WORD.findall(clause.text[modal.end() :])) if modal else set()
    words = tuple(word for word in clause.words if word in rest)
    return words if len(words) > 1 else clause.words


def _has_opposite(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether an odd number of words has only its opposite in the other clause."""
    one, other = (
        {(s.group, s.side) for w in ws if (s := sense_of(w)) and not s.negates}
        for ws in (words, others)
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


def _on_other_side(one: str, other: str) -> bool:
    return any(
        side != at and any(same_word(a, b) for a in event for b in place)
        for side, event in _sides(one)
        for at, place in _sides(other)
    )


def _sides(text: str) -> Iterator[tuple[str, list[str]]]:
    for found in _SIDE.finditer(text):
        words = [word for word in WORD.findall(found["event"]) if stems(word)]
        yield str(found.lastgroup and next(s for s in _SIDES if found[s])), words[:2]


def _bounds(text: str) -> Iterator[str]:
    rest = _LEAST.sub(" ", text)
    if rest != text:
        yield "least"
    if _MOST.search(rest):
        yield "most"


def _clauses(text: str, other: str) -> Iterator[_Clause]:
    """Yield the clauses of a text. A phrase such as "without a key" is a separate clause."""
    words = frozenset(WORD.findall(other))
    for word, wording in _REWORDED.items():
        text = compiled(wording).sub(word, text)
    text = _NEITHER.sub(r"\1 \2 or", _NO_NEGATION.sub(" ", text))
    for part in _BREAK.split(text):
        asides = list(_ASIDE.finditer(part))
        excepts = any(aside["no"] in _EXCEPTS for aside in asides)
        main = _clause(_ASIDE.sub(" ", part), words, False, excepts)
        yield main
        for aside in asides:
            begin = aside.end("no") if aside["no"] else aside.start()
            # "Not … without consent" is a double negation.
            negative = bool(aside["no"]) and not main.negative
            yield _clause(part[begin : aside.end()], words, negative, False)


def _clause(text: str, other: frozenset[str], negative: bool, excepts: bool) -> _Clause:
    number = int(negative)
    content: list[str] = []
    denials: list[tuple[int, bool]] = [(0, False)] * negative
    """The number of content words before each negation, and whether these may be denied, too."""
    found = WORD.findall(_MOST.sub(" ", _LEAST.sub(" ", text)))
    particle = found[-1] if found and found[-1] in _PARTICLES else ""
    for word in found:
        if particle and sense_of(particle + word):
            word = particle + word  # "lehnt … ab"
        sense = sense_of(word)
        bare = _PREFIX.sub("", _SUFFIX.sub("", word))
        if _NEGATION.fullmatch(word) or (sense is not None and sense.negates):
            number += 1
            denials.append((len(content), sense is not None))
        # "unsafe" is a negation of "safe" in the other text.
        elif bare != word and word not in other and any(same_word(bare, held) for held in other):
            number += 1
            denials.append((len(content), True))
            word = bare
        if stems(word) and not _NO_CONTENT.fullmatch(word):
            content.append(word)
    denied = []
    for at, both in denials:
        denied += [word for word in content[at:] if word not in _LIGHT][:_NEAR]
        if both or at == len(content):
            denied += content[max(0, at - _NEAR) : at]
    restricted = excepts or bool(_ONLY.search(text))
    return _Clause(text, tuple(content), tuple(denied), number % 2 == 1, restricted)
