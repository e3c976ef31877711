"""Detect by rules for English and German whether a passage says the opposite of a statement.

A clause is negative if it has an odd number of negations: "not", "prohibited", "keine". A clause
of the statement is compared with the clauses of the passage that share the most words with it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_pipeline.answering.quantities.facts import facts, number_of
from rag_pipeline.answering.quantities.numbers import FactValue
from rag_pipeline.answering.quantities.values import bound_of
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
    r"\bfail(?:s|ed)? to (?:comply|pay|perform)\b|\bfor no other (?:purpose|reason)s?\b|"
    r"\bnicht zuletzt\b|\bnot to mention\b"
)
_NEITHER = re.compile(r"\b(neither|weder)\b([^.;]*?)\b(?:nor|noch)\b")
_REWORDED = {
    "cancelled": r"\b(?:(?:is|are|was|were|been) off|call(?:s|ed)? off)\b",
    "rejected": r"\b(?:turn|vot)(?:e?s|ed)? down\b|\b(?:vot|decid)ed against\b",
    "eingeschaltet": r"\b(?:switch|turn)(?:es|s|ed)? (?:it )?on\b",
    "ausgeschaltet": r"\b(?:switch|turn)(?:es|s|ed)? (?:it )?off\b",
    "held": r"\b(?:take|takes|taking|took) place\b",
    "not": r"\bfail(?:s|ed)? to\b",
    "some": r"\bnot (?:all|every|each)\b|\bnicht (?:alle|jede)",
    "excluded": r"\brul(?:es?|ed) out\b|\b(?:left|leaves?) out\b",
    "gratis": r"\b(?:free of charge|at no (?:extra |additional )?(?:cost|charge)|for free)\b|"
    r"\bkoste[nt]+ nichts\b|\bcosts? nothing\b|(?<!-)\bfree\b(?! (?:to|from|of|time))(?!-)",
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
_FROM = re.compile(r"\b(?:after|from|following|since|nach|ab|seit|über)\s+(?:the |dem |der )?$")
_TO = re.compile(r"\b(?:before|until|by|prior to|vor|bis|unter)\s+(?:the |dem |der |zum )?$")
_MORE = re.compile(
    r"(?: \w+)?\s+(?:or|and) (?:above|over|older)\b|\s+(?:oder|und) (?:darüber|älter|mehr)\b"
)
_LESS = re.compile(
    r"(?: \w+)?\s+(?:or|and) (?:below|under|younger)\b|\s+(?:oder|und) (?:darunter|jünger)\b"
)
_LAST = re.compile(
    r"\b(?:up to|until|as late as|no later than|at the latest|bis(?: zu)?|spätestens)\s+$"
)
_BEFORE = re.compile(r"\s+(?:before|prior to|vor)\b")
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
    r"\b(?:all|every\w*|any(?:one|body)|each|always|alle[nrs]?|jede[mnrs]?|sämtliche\w*|stets|immer)\b"
)
_SOME = re.compile(
    r"\b(?:some|several|(?<!at )most|sometimes|occasionally|usually|einige\w*|manche\w*|manchmal|"
    r"meiste\w*|meist|teilweise|gelegentlich)\b"
)
_FEW = re.compile(r"\b(?:some|several|sometimes|einige\w*|manche\w*|manchmal|teilweise)\b")
"""Words of a part that says nothing about the rest."""
_ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschließlich|lediglich)\b")
_MODAL = re.compile(
    r"\b(?:shall|must|may|might|can|could|will|would|should|need|darf|dürfen|muss|müssen|kann|können|"
    r"soll|sollen|wird|werden)\b"
)
_DUTY = re.compile(
    r"\b(?:must|ha(?:s|ve) to|needs? to|(?:required|obliged|compelled) to|is required|"
    r"are required|mandatory|compulsory|muss|müssen|verpflichtet|verpflichtend|zwingend)\b"
)
_OPTION = re.compile(
    r"\b(?:may|can|optional(?:ly)?|voluntary|allowed|permitted|free to|darf|dürfen|kann|können|"
    r"freiwillig|erlaubt|gestattet)\b"
)
_NO_CONTENT = re.compile("|".join(p.pattern for p in (_NEGATION, _ALL, _SOME, _ONLY, _MODAL)))
_WITHOUT = (
    r"without|with no|except(?: for)?|with the exception of|unless|other than|apart from|ohne|"
    r"außer|bis auf|mit ausnahme (?:von|der|des)|es sei denn"
)
_VERB_AFTER = r"\b(?:darf|dürfen|kann|können|muss|müssen|soll|sollen|ist|sind|wird|werden|gibt)\b"
"""A verb that ends a phrase at the beginning of a German clause."""
_ASIDE = re.compile(
    rf"\b(?P<no>{_WITHOUT})\b(?:(?!{_VERB_AFTER})[^,;.])*|"
    r"\b(?P<even>even (?:if|when)|auch wenn|selbst wenn)\b[^,;.]*|"
    r"\b(?:if|when|where|provided|which|who|falls|wenn|sofern|soweit)\b[^,;.]*"
)
_UNLESS = ("unless", "es sei denn")
_EXCEPTS = re.compile(r"except|with the exc|other than|apart from|außer|bis auf|mit ausnahme")
_BREAK = re.compile(
    r"[;!?\n]|(?<!\b\d)(?<!\b\d\d)[.:](?!\d)|,? (?=nor\b)|"
    r"\b(?:but|whereas|although|though|however|aber|sondern|jedoch|obwohl)\b|"
    r", (?:and|und|or|oder)\b|"
    r"\b(?:and|or)(?= (?:shall|may|must|will|can|is|are|does|do|has|have)\b)|"
    r",(?= (?:the|each|either|neither|no|it|they|we|you|der|die|das)\b)"
)
_ANAPHOR = re.compile(r"\s*(?:it|they|this|these|he|she|er|sie|es|dies\w*)\b")
_PREFIX = re.compile(r"^(?:un|in|il|im|ir|non-?|dis|miss?|nicht-?)(?=\w{4})")
_ABLE = re.compile(r"[ai]ble$|(?:lässig|bar)(?:e[mnrs]?)?$")
"""The end of an adjective that a prefix denies: "impassable", "unzulässig"."""
_SUFFIX = re.compile(r"(?<=\w{3})(?:less|los|frei)(?:e[mnrs]?)?$")


_LIGHT = frozenset(
    "right rights authority power circumstances event case way recht befugnis required needed "
    "necessary possible available valid nötig erforderlich notwendig möglich".split()
)
_SIMILAR = 0.84
"""Least cosine of clauses in two languages that are compared."""
_ALLOWED = frozenset(map(sense_of, ("allow", "forbid")))
"""Senses of words that allow or deny all that their clause is about."""
_LEAST_SHARED = 0.6
"""Least share of a clause's words that a clause of the passage has, to be compared."""
_LEAST_OF_LONG = 0.8
"""The same for a clause of the passage with more than twice as many words."""
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
    conditional: bool = False
    """Whether a clause such as "if …" or "who …" follows."""
    excepted: bool = False
    """Whether a phrase such as "without …" follows."""
    exception: tuple[str, ...] = ()
    """The words after "except" or "without", which `words` includes."""


def contradicts(passage: str, statement: str, embed: SentenceEmbed | None = None) -> bool:
    """Return whether the clauses of a passage closest to a statement say the opposite.

    Opposite clauses differ by a negation or by opposite words. These are also "at least" and "at
    most", "before" and "after" the same event, or "all" and "some" or "only". With `embed`, the
    closest clause is the most similar one, for a statement in another language.
    """
    said, held = statement.casefold(), passage.casefold()
    all_words = WORD.findall(held)
    held_clauses = [clause for clause in _clauses(held, said) if clause.words]
    for clause in _clauses(said, held):
        if not clause.words or not held_clauses or (clause.negative and clause.excepted):
            continue
        if embed is not None:
            vectors = embed([clause.text, *(other.text for other in held_clauses)])
            alike = vectors[1:] @ vectors[0]
            nearest = held_clauses[int(alike.argmax())]
            if alike.max() >= _SIMILAR and _is_opposite(clause, nearest, focused=False):
                return True
            continue
        shared = [
            _shared(clause.words, other.words)
            if (not other.exception or _shared(clause.words, other.exception))
            and not (clause.exception and other.excepted)  # both have an exception
            else 0
            for other in held_clauses
        ]
        most = max(shared)
        # The verb may be another one with a sense of its own: "possible" and "excluded".
        known = [w for w in clause.words if not sense_of(w) or _shared([w], all_words)]
        closest = [c for c, n in zip(held_clauses, shared, strict=True) if n == most]
        is_long = min(len(c.words) for c in closest) > 2 * len(clause.words)
        if not most or most < (_LEAST_OF_LONG if is_long else _LEAST_SHARED) * len(known):
            continue
        if all(_is_opposite(clause, other) for other in closest):
            return True
    return False


def _shared(words: Sequence[str], others: Sequence[str]) -> int:
    return sum(any(same_word(word, other) for other in others) for word in words)


def _is_opposite(one: _Clause, other: _Clause, focused: bool = True) -> bool:
    differs = (one.negative != other.negative) ^ _has_opposite(one.words, other.words)
    denying, denied = (one, other) if one.negative else (other, one)
    if (
        focused
        and one.negative != other.negative
        and not _ALLOWED.intersection(filter(None, map(sense_of, denying.words)))
        and not any(same_word(word, held) for word in denying.denied for held in _predicate(denied))
    ):
        differs = False  # The negation is about something else.
    counts = [{q.value for q in facts(c.text) if number_of(q.value)} for c in (one, other)]
    if all(counts) and counts[0].isdisjoint(counts[1]):
        differs = False  # Two counts tell of two groups: "forty may" and "sixty may not".
    if (_SOME.search(one.text) and other.restricted) or (
        _FEW.search(one.text) and _FEW.search(other.text)
    ):
        differs = False
    if one.negative and other.restricted and _shared(one.words, other.words) < len(one.words):
        differs = False  # "Only members may" and "guests may not".
    # "More than eight may not" is "no more than eight may".
    differs ^= _is_bounded_otherwise(one.text, other.text) ^ _on_other_side(one.text, other.text)
    return (
        (differs and not (one.restricted and (one.negative or other.restricted)))
        or _has_other_modal(one, other)
        or bool(
            _ALL.search(one.text)
            and not _ONLY.search(one.text)
            and (
                _ONLY.search(other.text)
                or _SOME.search(other.text)
                or (
                    other.conditional
                    and not one.conditional
                    and _shared(one.words, other.words) == len(one.words)
                )
            )
        )
    )


def _has_other_modal(one: _Clause, other: _Clause) -> bool:
    """Return whether one clause is a duty and the other only a permission."""
    if one.negative or other.negative or one.restricted or other.restricted:
        return False
    duty, option = bool(_DUTY.search(one.text)), bool(_OPTION.search(one.text))
    is_duty, is_option = bool(_DUTY.search(other.text)), bool(_OPTION.search(other.text))
    return (duty, option, is_duty, is_option) in (
        (True, False, False, True),
        (False, True, True, False),
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
        yield next(side for side in _SIDES if found[side]), words[:1]


def _is_bounded_otherwise(one: str, other: str) -> bool:
    """Return whether a quantity is the least in one clause and the most in the other."""
    limits, others = _limits(one), _limits(other)
    both = limits.keys() & others.keys()
    return any(limits[value] != others[value] for value in both)


def _limits(text: str) -> dict[FactValue, str]:
    """Return "least" or "most" for the quantities of a clause with such words beside them."""
    found: dict[FactValue, str] = {}
    for quantity in facts(text):
        before, after = text[: quantity.start], text[quantity.end :]
        bound = bound_of(text, quantity)
        for side, ahead, behind in (("least", _FROM, _MORE), ("most", _TO, _LESS)):
            bound = bound or (side if ahead.search(before) or behind.match(after) else "")
        if bound == "most" and _LAST.search(before) and _BEFORE.match(after):
            bound = "least"  # "up to two days before"
        if bound:
            found[quantity.value] = bound
    return found


def _clauses(text: str, other: str) -> Iterator[_Clause]:
    """Yield the clauses of a text. A phrase such as "without a key" is a separate clause."""
    words = frozenset(WORD.findall(other))
    text = _NO_NEGATION.sub(" ", text)
    for word, wording in _REWORDED.items():
        text = compiled(wording).sub(word, text)
    text = _NEITHER.sub(r"\1 \2 or", text)
    last: _Clause | None = None
    for part in _BREAK.split(text):
        asides = list(_ASIDE.finditer(part))
        excepts = any(_EXCEPTS.match(aside["no"] or "") for aside in asides)
        main = _clause(_ASIDE.sub(" ", part), words, False, excepts)
        kinds = [bool(aside["no"]) for aside in asides]
        main = main._replace(conditional=False in kinds, excepted=True in kinds)
        if last and _ANAPHOR.match(part):
            main = main._replace(words=(*last.words[:1], *main.words))
        if last and main.negative and len(main.words) < 2:
            # "Lunch is included, dinner is not" and "may be given, but not sold".
            main = main._replace(words=(*last.words, *main.words))
        yield (last := main)
        for aside in asides:
            begin = aside.end("no") if aside["no"] else aside.start()
            # "Not … without consent" is a double negation.
            negative = bool(aside["no"]) and not main.negative
            clause = _clause(part[begin : aside.end()], words, negative, False)
            if aside["even"]:
                clause = clause._replace(negative=clause.negative ^ main.negative)
            if aside["no"] or aside["even"]:
                if aside["no"] in _UNLESS:
                    yield _clause(part[begin : aside.end()], words, False, False)
                whole = (*main.words, *clause.words)
                clause = clause._replace(words=whole, exception=clause.words)
            yield clause


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
        sense = None if _ONLY.fullmatch(word) else sense_of(word)
        bare = _PREFIX.sub("", _SUFFIX.sub("", word))
        if _NEGATION.fullmatch(word) or (sense is not None and sense.negates):
            number += 1
            denials.append((len(content), sense is not None))
        # "unsafe" is a negation of "safe" in the other text.
        elif (
            bare != word
            and word not in other
            and (_ABLE.search(word) or any(same_word(bare, held) for held in other))
        ):
            number += 1
            denials.append((len(content), True))
            word = bare
        if stems(word) and not _NO_CONTENT.fullmatch(word):
            content.append(word)
    denied = []
    for at, both in denials:
        after = [word for word in content[at:] if word not in _LIGHT][:_NEAR]
        denied += after
        if both or not after:
            denied += content[max(0, at - _NEAR) : at]
    restricted = excepts or bool(_ONLY.search(text))
    return _Clause(text, tuple(content), tuple(denied), number % 2 == 1, restricted)
