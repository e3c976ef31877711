"""Split English and German texts into parts, and count the denials of each part.

"Not", "nobody", "keine", "without", "unless" and "prohibited" are denials, and so is "un-" in
"unsafe". A part ends at a comma, or before a conjunction or a phrase such as "without a key".
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rag_pipeline.answering.quantities.numbers import FOREIGN_WORDS, NUMBER
from rag_pipeline.answering.words import WORD, Sense, same_word, sense_of, stems, tables
from rag_pipeline.imports import compiled

_DENIAL = re.compile(
    r"(?:no|not|never|neither|nor|none|nobody|nothing|nowhere|cannot|\w+n['’]t|without|hardly|"
    r"rarely|scarcely|barely|unless|except|kein\w*|nicht|nichts|nie|niemals|niemand\w*|nirgends|"
    r"weder|kaum|ohne|außer|keinesfalls|keineswegs)"
)
_ORDERED = tuple(
    (re.compile(pattern), order)
    for pattern, order in (
        (r"\b(?:höchst|maximal)(?=[a-zäöü]{4})", "maximum "),
        (r"\bmindest(?=[a-zäöü]{4})(?!ens)", "minimum "),
        (r"(?<=\d)-(?=[a-z])", " "),
        (r"(?<=\d)\.(?= (?:jan|feb|märz|apr|mai|jun|jul|aug|sep|okt|nov|dez))", ""),
        (r"\bnoch (?:nicht|keine?n?)(?= \S+ (?:jahr|monat|tag|woche))", "unter"),
        (r"\baußer((?: de[mnr])? \w+)([^.,;!?\n]*)", r"\2 außer\1"),
        (r",(?= (?:[\w-]+ ){0,2}[\w-]+(?:, (?:[\w-]+ ){0,2}[\w-]+){0,20},? "
         r"(?:and|or|und|oder) )", " "),
        # "Not until noon" is "after noon".
        (r"\b(?:(?:must|shall|may|can) not|not|never|cannot|\w+n['’]t) ([^.;,]{0,199}?)"
         r"\buntil\b(?! further)", r"may \1after"),
        # "Neither the shop nor the bar" has one denial.
        (r"\b(neither|weder)\b([^.;]{0,199}?)\b(?:nor|noch)\b", r"\1 \2 or"),
        # "The firm, which sells no chairs, repairs them", and "it is forbidden, the door to open".
        (r", ((?:der|die|das|den|dem|deren|dessen) [^,.;\n]{5,120}(?:t|en)), "
         r"(?=[a-zäöü])([^.;!?\n]*)", r" \2; \1"),
        (r", (?=[^,.;]{0,120}\bzu \w+n\b)|, (?=[^,.;]{0,120}\b(?:ab|an|auf|aus|bei|dar|durch|"
         r"ein|fort|frei|her|hin|los|mit|nach|um|vor|weg|wieder|zurück|zusammen)zu\w+n\b)", " "),
        (r", ((?:which|who|whose|whom|in|at|on|by|as|with|under|for|if)\b[^,.;\n]{2,90}), "
         r"(?=[a-z])([^.;!?\n]*)", r" \2; \1"),
    )
)  # fmt: skip
"""Wordings, and the order in which they are read."""
_PARTICLES = frozenset(
    "ab an auf aus bei ein fest fort frei los mit nach statt überein vor weg zu zurück".split()
)
LEAST = (
    r"\bno(?:t|thing)? (?:less|fewer|earlier|sooner) than\b|\bat least\b|\bminimum\b|"
    r"(?<!\bno )(?<!\bnot )\b(?:more than|exceeds?|over(?= \d))\b|\bor more\b|\boder mehr\b|"
    r"(?<!nicht )\bmehr als\b|\b(?:mindestens|wenigstens|frühestens)\b|nicht unterschreit\w+|"
    r"\bup to(?=(?: \S+){1,3} (?:before|prior to)\b)|"
    r"\buntil(?=(?: \S+){1,3} (?:before|prior to)\b)|\bbis(?=(?: \S+){1,3} vor\b)"
)
MOST = (
    r"\bno(?:t|thing)? (?:more|greater|later|longer) than\b|\bat (?:the )?(?:most|latest)\b|"
    r"\bmaximum\b|\b(?:less|fewer) than\b|\bup to\b|\bwithin\b|\b(?:not|nicht) (?:to )?exceed\b|"
    r"\bor (?:less|fewer)\b|\boder weniger\b|"
    r"\b(?:höchstens|maximal|spätestens|innerhalb|binnen)\b|\bweniger als\b|\bbis zu\b|"
    r"\bnicht (?:mehr|länger) als\b|\bnicht (?:übersteig|überschreit)\w+"
)
_BOUNDS = re.compile(
    rf"{LEAST}|{MOST}|\b(?:\w+er (?:than|als)|above|below|beneath|exceed\w*|oberhalb|unterhalb)"
    r"(?= (?:an? |the |de[rmn] |eur |usd |gbp |[€$£])?"
    rf"(?:\d|{NUMBER}\b|(?:{FOREIGN_WORDS})\b))"
)
ALL = re.compile(
    r"\b(?:all|every\w*|any(?:one|body)|each|always|both|at any time|"
    r"alle[nrs]?|jede[mnrs]?|beide[nrs]?|sämtliche\w*|stets|immer|jederzeit)\b"
)
SOME = re.compile(
    r"\b(?:some|several|(?<!a )few|wenige|a number of|"
    r"\d+ of (?:the )?\d+|sometimes|occasionally|usually|einige\w*|manche\w*|"
    r"manchmal|meist|teilweise|gelegentlich)\b"
)
ONLY = re.compile(r"\b(?:only|solely|exclusively|nur|ausschließlich|lediglich)\b")
_NO_CONTENT = re.compile(
    r"\b(?:shall|must|may|might|can|could|will|would|should|need|darf|dürfen|muss|müssen|kann|können|"
    rf"soll|sollen|wird|werden)\b|{ALL.pattern}|{SOME.pattern}|{ONLY.pattern}"
)
_SENTENCE = re.compile(r"[;!?\n]|(?<!\b\d)(?<!\b\d\d)[.:](?!\d)")
_ASIDE = r"unless|without|except|if|when|provided|which|who|whose|wenn|falls|sofern|ohne|außer"
_BREAK = re.compile(
    r",(?!\d)|\b(?:but|whereas|although|though|however|because|since(?! \d)|while|yet|aber|"
    r"sondern|jedoch|obwohl|weil|während(?! (?:de[rs]|eine[rs])\b))\b|"
    r"\b(?:and|or|und|oder)(?= (?:shall|may|must|will|can|should|is|are|does|do|did|has|have|"
    r"wird|werden|ist|sind|kann|können|darf|dürfen|muss|müssen|soll|sollen|hat|haben)\b)|"
    r"\b(?:and|und)(?= (?:\w+ )?"
    r"(?:not|never|no|nor|neither|without|nicht|nie|kein\w*|weder|ohne)\b)|"
    rf"(?=\b(?:{_ASIDE}|nor)\b)"
)
_OPENS_ASIDE = re.compile(rf"\s*(?:{_ASIDE})\b")
_ELLIPSIS = re.compile(
    r"^\s*(?:and |und )?(?:neither|nor|auch nicht|nicht jedoch|nicht aber|not)\b|"
    r"\b(?:not|\w+n['’]t|never|nicht|nie|keine?)\s*$"
)
_BAN = re.compile(r"\w{3,}verbot(?:e?s|en?)?")
_PREFIX = re.compile(r"^(?:un|in|il|im|ir|non-?|dis|miss?|nicht-?)(?=\w{4})")
_SUFFIX = re.compile(r"(?<=\w{3})(?:less|los|frei|-free)(?:e[mnrs]?)?$")
_ADJECTIVE = re.compile(
    r"\w+[ai]ble|\w+(?:lässig|bar)(?:e[mnrs]?)?|non-\w+|\w+-free|"
    r"un(?!der|til|ion|it|iv|ter|ser|gef|less|ique)\w*"
    r"(?:ed|ible|al|ary|ing|y|en|t|lich|ig|isch|sam|haft|fair|safe|ful|wise|just|clear|known|paid|"
    r"sold|seen|made|done|like)(?:e[mnrs]?|ly)?"
)
"""Adjectives that a prefix denies: "impassable", "unzulässig", "unpaid"."""


class Part(NamedTuple):
    """A part of a sentence, its content words, and its denials."""

    text: str
    words: tuple[str, ...]
    """Content words, without denials such as "not", but with "prohibited"."""
    denials: tuple[int, ...]
    """The number of content words before each denial."""
    sentence: int
    main: int
    """The number of the part that a phrase such as "without a key" belongs to, or -1."""


@cache
def _wordings() -> list[tuple[str, str]]:
    pairs = (line.split(" =>") for line in tables() if " =>" in line)
    return [(rf"\b(?:{wording})(?!\w)", f" {sense.strip()} ") for wording, sense in pairs]


def reworded(text: str) -> str:
    """Return a text in lower case, with one word for each wording of the tables."""
    text = text.lower()  # "ß" stays "ß"
    for wording, sense in _wordings():
        text = compiled(wording).sub(sense, text)
    for pattern, order in _ORDERED:
        text = pattern.sub(order, text)
    return text


def parts(text: str, other: str) -> list[Part]:
    """Return the parts of a text that `reworded` has returned.

    `other` is the text to compare with. If it has "safe", "unsafe" counts as a denial.
    """
    return list(_parts(text, frozenset(WORD.findall(other.lower()))))


def _parts(text: str, other: frozenset[str]) -> Iterator[Part]:
    number = 0
    for at, sentence in enumerate(_SENTENCE.split(text)):
        last: tuple[str, ...] = ()
        pieces = [piece for piece in _BREAK.split(sentence) if piece and WORD.search(piece)]
        first = next((n for n, p in enumerate(pieces) if not _OPENS_ASIDE.match(p)), 0)
        main = number + first
        for place, piece in enumerate(pieces):
            words, denials = _content(piece, other)
            is_aside = bool(_OPENS_ASIDE.match(piece))
            if not is_aside:
                main = number + place
            if _ELLIPSIS.search(piece) and not is_aside:
                # "Lunch is included, dinner is not", and "… is excluded, not however …"
                words = (*last, *words)
                if len(denials) == 1:
                    denials += (0,) * sum(s.negates for w in last if (s := sense_of(w)))
            yield Part(piece, words, denials, at, main if is_aside and place != first else -1)
            last = words
        number += len(pieces)


def _content(text: str, other: frozenset[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    content: list[str] = []
    denials: list[int] = []
    found = WORD.findall(_BOUNDS.sub(" ", text))
    particle = found[-1] if found and found[-1] in _PARTICLES else ""
    for word in found:
        if particle and sense_of(particle + word):
            word = particle + word  # "lehnt … ab"
        sense = None if ONLY.fullmatch(word) else sense_of(word)
        bare = _PREFIX.sub("", _SUFFIX.sub("", word))
        if _DENIAL.fullmatch(word):
            denials.append(len(content))
            continue
        if (sense is not None and sense.negates and not _has_noun(sense, other)) or _BAN.fullmatch(
            word
        ):
            denials.append(len(content))
        # "unsafe" is a denial of "safe" in the other text.
        elif (
            bare != word
            and sense is None
            and word not in other
            and (_ADJECTIVE.fullmatch(word) or any(same_word(bare, held) for held in other))
        ):
            denials.append(len(content))
            word = bare
        if (stems(word) or sense) and not (word[0].isdecimal() or _NO_CONTENT.fullmatch(word)):
            content.append(word)
    return tuple(content), tuple(denials)


def _has_noun(sense: Sense, other: frozenset[str]) -> bool:
    """Return whether the other text has the denial as a noun: "excluded" and "the exclusion"."""
    return sense._replace(negates=False) in map(sense_of, other)
