"""Detect by rules for English and German whether a passage says the opposite of a statement.

The statement is compared with the parts of the passage that share the most words with it. It says
the opposite if an odd number of things differ: each denial, a pair of opposite words, a side
("before", "after") or a limit ("at most 5", "7"). Duties and options have rules of their own.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

from rag_pipeline.answering.clauses import ALL, ONLY, SOME, Part, parts, reworded
from rag_pipeline.answering.quantities.facts import facts, plain
from rag_pipeline.answering.quantities.numbers import FactValue
from rag_pipeline.answering.quantities.values import Quantity, bound_of
from rag_pipeline.answering.reading import SentenceEmbed
from rag_pipeline.answering.slots import is_exchanged
from rag_pipeline.answering.words import WORD, same_word, sense_of, stems

_END = r"(?:(?:the )?(?:ablauf|end|expiry|expiration|lapse) (?:von|of) )?"
_FROM = re.compile(
    r"(?i)\b(?:after|from|following|since|minimum(?: \w+){1,3} (?:is|beträgt)|"
    rf"\w+er (?:than|als)|nach|ab|seit|über)\s+{_END}(?:the |dem |der )?$"
)
_TO = re.compile(
    r"(?i)\b(?:before|until|by|prior to|maximum(?: \w+){1,3} (?:is|beträgt)|"
    r"(?:clos|end|expir|laps|finish)\w* (?:on|at)|"
    r"(?:low|short|small|young|light|narrow|thinn|cheap|earli|soon|slow|cold|cool|"
    r"weak)er than|(?:niedrig|kürz|klein|jüng|leicht|schmal|dünn|billig|früh)er als|"
    rf"vor|bis|unter)\s+{_END}(?:the |dem |der |zum )?$"
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
    "above": r"über",
    "below": r"unter",
}
_SIDE = re.compile(
    r"\b(?:" + "|".join(f"(?P<{side}>{words})" for side, words in _SIDES.items()) + r")\b"
    r"(?P<event>(?: [^\W\d]+){1,6})"
)
_YES_OR_NO = re.compile(
    r"(?i)\W*(?:may|can|could|must|shall|should|is|are|were|do|does|did|has|have|will|would|"
    r"darf|dürfen|kann|können|muss|müssen|soll|sollen|ist|sind|hat|haben|wird|werden|gibt|"
    r"est-ce qu\w*|puis-je|peut|peuvent|peux|pouvons|faut-il|doit|doivent|dois|devons|y a-t-il|"
    r"puedo|puede|pueden|podemos|debe|deben|hay)\b"
)
_NOUN = re.compile(r"[\s-]*([^\W\d]+)")
_MODES = {
    "exempt": r"need not|needn['’]t|(?:do|does|did)(?: not|n['’]t) (?:have|need)|"
    r"(?:(?:shall|may|will|can) )?(?:not|n['’]t)(?: be)? (?:required|obliged|bound|mandatory|"
    r"compulsory|necessary|needed)|no (?:duty|obligation|need)|under no (?:duty|obligation)|"
    r"optional|voluntary|unnecessary|(?:muss|müssen|brauch(?:t|en))\b[^.;]*\b(?:nicht|not|kein\w*)|"
    r"keine pflicht|freiwillig|nicht (?:verpflichtet|erforderlich|nötig|notwendig)",
    "forbidden": r"(?:must|may)(?: not|n['’]t)|prohibited|forbidden|banned|"
    r"(?:not|n['’]t)(?: be)? (?:allowed|permitted|entitled|authori[sz]ed)|barred|verboten|"
    r"untersagt|unzulässig|nicht (?:erlaubt|gestattet|zulässig)|"
    r"(?:darf|dürfen)\b[^.;]*\b(?:nicht|not|kein\w*)",
    "duty": r"must|ha(?:s|ve) to|needs? to|required|obliged|compelled|bound to|duty|mandatory|"
    r"compulsory|obligatory|muss|müssen|verpflichtet|verpflichtend|pflicht|zwingend",
    "option": r"may|can|could|allowed|permitted|entitled|choose|darf|dürfen|kann|können|erlaubt|"
    r"gestattet|zulässig",
}
_MODE = {mode: re.compile(rf"\b(?:{words})\b") for mode, words in _MODES.items()}
_CONDITION = re.compile(r"\b(?:only|without|nur|ohne)\b")
_ANY = re.compile(rf"{ALL.pattern}|\b(?:also|even|auch)\b")
_PART = re.compile(rf"{SOME.pattern}|\b(?:majority|mehrheit)\b")
_LACKS = re.compile(
    r"\b(?:without|ohne|un(?!ter|der|til|less)\w{4,}|(?:not|nicht)\b.*\b(?:not|nicht|no|kein\w*))\b"
)
_VERB = re.compile(r"\b(?:may|can|must|shall|will|should|is|are)\b")
_THAN = re.compile(r"\b(?:than|als|(?:exceed|surpass|outperform)\w*)\b")
_RANGE = re.compile(r"(\d+)(?::\d\d)?\s*(?:-|–|to|bis|until|and|und)\s*$")
_WEAK = re.compile(r"\b(?:after|before|from|until|nach|vor|ab|bis)\b")
_SECONDS = {"day": 86_400, "week": 604_800, "year": 31_557_600}
_SECONDS |= {"tag": 86_400, "tage": 86_400, "woche": 604_800, "month": 2_629_800}
_SECONDS["months"] = _SECONDS["month"]
_SIMILAR = 0.8
"""Least cosine of parts in two languages that are compared."""
_TIED = 0.01
"""Difference of cosines below which two parts are equally close."""
_OTHER_WORD = 0.15
"""Cost of a word of a part that the statement lacks. A word that the statement has counts 1."""
_NEAR = 0.5
"""Least share of the words of a further part that the statement has."""
_MOST, _AHEAD = 24, 100
"""Largest number of parts compared, and of characters before a number that bound it."""
_NEXT = 2
"""Number of content words that "only" is about."""
_SHORT = 14
"""Number of content words of a passage that is about the statement, whatever its words are."""
_COVERED, _OWN = 0.8, 0.5
"""Least shares of the words of a statement and of its closest parts that both have."""


def contradicts(passage: str, statement: str, embed: SentenceEmbed | None = None) -> bool:
    """Return whether the parts of a passage that are closest to a statement say the opposite.

    For a statement in another language, `embed` gives vectors. Then the most similar parts are the
    closest ones.
    """
    held, said = reworded(plain(passage)), reworded(plain(statement))
    of_passage, of_statement = parts(held, said), parts(said, held)
    if not _words(of_statement) or not of_passage:
        return False
    if embed:
        similar = _most_similar(said, of_passage, embed)
        return bool(similar) and all(_is_opposite([p], of_statement) for p in similar)
    closest = _closest(of_passage, of_statement)
    has_exception = any(
        part.denials and part.main >= 0 and of_passage[part.main] in closest
        for part in of_passage
        if part not in closest
    )
    if not closest or (has_exception and SOME.search(said)):
        return False  # "Nobody may, except the staff" and "some may"
    return _is_opposite(closest, of_statement, held) or (
        not any(part.denials for part in (*closest, *of_statement))
        and is_exchanged(passage, statement, False)
    )


def _words(some: Sequence[Part]) -> tuple[str, ...]:
    return tuple(word for part in some for word in part.words)


def _most_similar(statement: str, held: Sequence[Part], embed: SentenceEmbed) -> list[Part]:
    vectors = embed([statement, *(part.text for part in held)])
    alike = vectors[1:] @ vectors[0]
    least = max(_SIMILAR, alike.max() - _TIED)
    return [part for part, cosine in zip(held, alike, strict=True) if cosine >= least]


def _closest(held: Sequence[Part], said: Sequence[Part]) -> list[Part]:
    """Return the parts of a sentence that share the most words with a statement.

    Return no parts if a long passage is about something else.
    """
    words = set(_words(said))
    kinds = {v[0] for part in said for v in _values(part.text)}
    openers = {_opener(part) for part in said if part.denials}
    hits = [{w for w in words if any(same_word(w, o) for o in part.words)} for part in held]
    for hit, part in zip(hits, held, strict=True):
        hit |= {f"#{kind}" for kind in kinds & {v[0] for v in _values(part.text)}}
    misses = [sum(not any(same_word(o, w) for w in words) for o in part.words) for part in held]
    chosen: list[int] = []
    found: set[str] = set()

    def is_about(n: int) -> bool:
        part, new = held[n], len(hits[n] - found)
        if n in chosen:
            return False
        if part.main in chosen and part.denials:
            return _opener(part) in openers or bool(hits[n])
        is_near = new >= _NEAR * (new + misses[n])
        first = held[chosen[0]] if chosen else part
        return new > 0 and (
            not chosen or part.main in chosen or (is_near and part.sentence == first.sentence)
        )

    while len(chosen) < _MOST and (more := [n for n in range(len(held)) if is_about(n)]):
        best = max(more, key=lambda n: (len(hits[n] - found) - _OTHER_WORD * misses[n], -n))
        for n in {best, held[best].main} - {-1}:
            chosen.append(n)
            found |= hits[n]
    own = [word for n in chosen for word in held[n].words]
    shared = sum(any(same_word(word, other) for other in words) for word in own)
    is_covered = len(found & words) >= _COVERED * len(words) and shared >= _OWN * len(own)
    if not is_covered and len(_words(held)) > _SHORT:
        return []
    return [held[n] for n in sorted(set(chosen))]


def _opener(part: Part) -> str:
    """Return the first word of a phrase such as "without a key"."""
    return WORD.findall(part.text)[0] if part.main >= 0 else ""


def _is_opposite(held: Sequence[Part], said: Sequence[Part], passage: str = "") -> bool:
    """Return whether the parts of a passage say the opposite of those of a statement.

    If the former have no quantity as the statement has, those of `passage` count. Without it, the
    statement is in another language.
    """
    one, other = (" ; ".join(part.text for part in some) for some in (held, said))
    beyond = _is_beyond(one, other)
    changes = [
        _has_opposite(_words(held), _words(said)),
        _on_other_side(one, other, bool(passage)),
        _is_about_others(one, other),
        _is_compared_otherwise(one, other),
        bool(_is_beyond(passage, other) if beyond is None else beyond),
    ]
    denials = sum(len(part.denials) for part in (*held, *said))
    modes = {_mode(one), _mode(other)}
    has_condition = bool(_CONDITION.search(one) or _CONDITION.search(other))
    if (denials + sum(changes)) % 2:
        # "He may decline" and "he need not accept"
        return modes != {"exempt", "option"} or any(changes) or has_condition
    is_plain = not denials and not any(changes) and not has_condition
    return (
        modes == {"exempt", "forbidden"}
        or (modes == {"duty", "option"} and is_plain)
        or bool(
            _ANY.search(other)
            and not (ONLY.search(other) or ALL.search(one))
            and (_PART.search(one) or ONLY.search(one))
        )
    )


def _is_about_others(one: str, other: str) -> bool:
    """Return whether a text lacks the words between "only" and a verb of the first text."""
    only = None if ONLY.search(other) or _LACKS.search(other) else ONLY.search(one)
    rest = _VERB.split(one[only.end() :])[0] if only else ""
    words = [word for word in WORD.findall(rest) if stems(word) and not word[0].isdecimal()]
    if only and only[0] in ("nur", "ausschließlich", "lediglich") and len(words) > 1:
        words.pop()  # the verb
    held = WORD.findall(other)
    return bool(words) and not any(same_word(a, b) for a in words[:_NEXT] for b in held)


def _is_compared_otherwise(one: str, other: str) -> bool:
    """Return whether "a … than b" stands in one text and "b … than a" in the other."""
    (_, *after), (ahead, *behind) = (_THAN.split(text, maxsplit=1) for text in (one, other))
    first, last = (
        next((stems(w) for w in WORD.findall(" ".join(t)) if stems(w)), frozenset())
        for t in (after, behind)
    )
    held = frozenset(stem for word in WORD.findall(ahead) for stem in stems(word))
    return bool(first and last) and first.isdisjoint(last) and not first.isdisjoint(held)


def _mode(text: str) -> str:
    """Return the first mode of a text, or "". Of two with one beginning, the first above counts."""
    found = [
        (m.start(), n, mode) for n, mode in enumerate(_MODE) if (m := _MODE[mode].search(text))
    ]
    return min(found)[2] if found else ""


def _has_opposite(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether an odd number of words has only its opposite in the other text."""
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
    """Return whether something is before an event in one text and after it in the other.

    If `focused` is False, the texts are in two languages. Then their events count as the same if
    each text has only one.
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


def _sides(text: str) -> Iterator[tuple[str, list[str]]]:
    for quantity in sorted(facts(text), key=lambda q: -q.start):
        if quantity.kind not in ("DAY", "RATE"):  # "before 5 May" is a limit
            text = f"{text[: quantity.start]} 7 {text[quantity.end :]}"
    for found in _SIDE.finditer(text):
        words = [word for word in WORD.findall(found["event"]) if stems(word)]
        if words:
            yield next(side for side in _SIDES if found[side]), words[:3]


def _is_beyond(one: str, other: str) -> bool | None:
    """Return whether a quantity is outside the limits of the first text, or has another bound.

    Return None if the texts have no quantities of one kind.
    """
    held, beyond = list(_values(one)), None
    for kind, size, noun, bound in _values(other):
        alike = [value for value in held if value[0] == kind]
        if kind == "number" and (len(alike) > 1 or not (bound or (alike and alike[0][3]))):
            alike = [v for v in alike if not (noun and v[2]) or same_word(noun, v[2])]
        if not alike:
            continue
        sizes = [value for _, value, _, _ in alike]
        bounds = [its for _, value, _, its in alike if value == size]
        if bounds:
            differs = bool(bound) and all(its not in ("", bound) for its in bounds)
        elif len(alike) > 1 and min(sizes) <= size <= max(sizes) and not any(v[3] for v in alike):
            differs = False  # "from 7 to 9" and "at 8"
        else:
            is_strong = not _WEAK.search(other)
            differs = all(
                _excludes(value, its, size, bound, is_strong) for _, value, _, its in alike
            )
        beyond = bool(beyond) or differs
    return beyond


def _excludes(limit: Decimal, its: str, size: Decimal, bound: str, is_strong: bool) -> bool:
    """Return whether a value with a bound, or none, is outside another one."""
    if its:
        outside = size > limit if its == "most" else size < limit
        return outside and not (bound == its and is_strong)
    return limit > size if bound == "most" else limit < size if bound == "least" else True


def _values(text: str) -> Iterator[tuple[str, Decimal, str, str]]:
    """Yield the kind, the size, the noun and the bound of each quantity. Units need no noun."""
    bounds = dict(_limits(text))
    for quantity in facts(text):
        kind, *numbers = quantity.value
        if quantity.kind in ("DAY", "RATE") or kind in ("either date", "month"):
            continue
        size = Decimal(numbers[0])
        if kind == "date":
            size = 31 * size + Decimal(numbers[1])
        found = _NOUN.match(text, quantity.end)
        noun = found[1] if found and kind in ("number", "nth") else ""
        kind = noun if kind == "nth" and noun in _SECONDS else str(kind).removeprefix("nth ")
        if kind == "number" and not noun and 1500 < size < 2200:
            continue  # a year
        if kind in _SECONDS:
            kind, size = "seconds", size * _SECONDS[kind]
        kind = "number" if kind == "nth" else kind
        first = _RANGE.search(text, max(0, quantity.start - 20), quantity.start)
        written = re.search(r"[1-9]\d*", text[quantity.start : quantity.end])
        if first and written:
            yield kind, size * Decimal(first[1]) / Decimal(written[0]), noun, ""
        yield kind, size, noun, "" if first else bounds.get(quantity, "")


def _limits(text: str) -> Iterator[tuple[Quantity, str]]:
    """Yield the bounded quantities of a text, each with its bound, "least" or "most"."""
    for quantity in facts(text):
        before = max(0, quantity.start - _AHEAD), quantity.start
        bound = bound_of(text, quantity)
        for side, ahead, behind in (("most", _TO, _LESS), ("least", _FROM, _MORE)):
            if not bound and (ahead.search(text, *before) or behind.match(text, quantity.end)):
                bound = side
        if bound == "most" and _LAST.search(text, *before) and _BEFORE.match(text, quantity.end):
            bound = "least"  # "up to two days before"
        if bound:
            yield quantity, bound
