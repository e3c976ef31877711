"""Compare words of English and German texts: stems, compounds, and opposites.

`opposites.txt` holds beginnings of words of the general language. A beginning matches a word if a
usual ending follows: "approv" matches "approves" and "approval".
"""

import math
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from rag_pipeline.config import Lexical
from rag_pipeline.search.tokenization import tokenizer_of

_ENDINGS = frozenset(
    "e s d es ed ing al als ion ions ance ly y ies ied ty ity ment ments ful fully "
    "en t te ten st em et ete eten n r rer ere eren eres erer ung ungen bar lich es ence ent ency "
    "ernd end ende ender enden enes ener ene enen enem m keit ation ally able ible ous ce".split()
) | {""}
_NOUN_ENDINGS = frozenset("ion ions ation al als ance ung ungen ment ments bar".split())
WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_SHARED = 5
"""Least number of letters that two forms of a word or a compound and its part share."""


class Sense(NamedTuple):
    """The side of a word in a group of opposites. `negates` means that this side is a negation."""

    group: int
    side: bool
    negates: bool


@cache
def tables() -> list[str]:
    """Return the lines of the tables of opposites and wordings, without comments."""
    lines = Path(__file__).with_name("opposites.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def _senses() -> dict[str, Sense]:
    found: dict[str, Sense] = {}
    for number, line in enumerate(tables()):
        sides = re.split(r" <?> ", line)
        for side, words in enumerate(sides if len(sides) == 2 else ()):
            for word in words.split():
                found.setdefault(word, Sense(number, bool(side), bool(side) and " > " in line))
    return found


@lru_cache(maxsize=50_000)
def sense_of(word: str) -> Sense | None:
    """Return the sense of a case-folded word in the tables of opposites, or None."""
    senses = _senses()
    for form in (word, re.sub(r"^(ge|zu)|(?<=^ab|^an|^vo|^zu)(ge|zu)", "", word)):
        for cut in range(len(form), 2, -1):
            rest = form[cut:]
            if len(rest) > 6:
                break
            doubled = len(rest) > 1 and rest[0] == form[cut - 1]
            if (rest in _ENDINGS or (doubled and rest[1:] in _ENDINGS)) and form[:cut] in senses:
                sense = senses[form[:cut]]
                return sense._replace(negates=sense.negates and rest not in _NOUN_ENDINGS)
    return None


def are_opposite(one: str, other: str) -> bool:
    """Return whether two case-folded words are on the two sides of a group of opposites."""
    first, second = sense_of(one), sense_of(other)
    return bool(first and second and first.group == second.group and first.side != second.side)


@lru_cache(maxsize=50_000)
def stems(word: str) -> frozenset[str]:
    """Return the English and the German stem of a word, or an empty set for a stop word."""
    found = [tokenizer_of(Lexical(language=name)).tokenize(word) for name in _LANGUAGES]
    return frozenset(stem for some in found for stem in some) if all(found) else frozenset()


@lru_cache(maxsize=200_000)
def same_word(one: str, other: str) -> bool:
    """Return whether two words are forms of one word, opposites, or a compound and its part."""
    if one == other:
        return True
    roles = {
        "ee" if word.rstrip("s").endswith("ee") else "er"
        for word in (one, other)
        if _ROLE.fullmatch(word)
    }
    if one[:1].isdecimal() or other[:1].isdecimal() or len(roles) > 1:
        return False  # the employee is not the employer
    if stems(_IRREGULAR.get(one, one)) & stems(_IRREGULAR.get(other, other)):
        return True
    sense, also = sense_of(one), sense_of(other)
    if sense is not None and also is not None and sense.group == also.group:
        return True
    short, long = sorted((_plain(one), _plain(other)), key=len)
    most = max(_SHARED, math.ceil(0.75 * len(short)))
    at = long.find(short[:most]) if len(short) >= _SHARED else -1
    return at == 0 or (at > 2 and not _PREFIX.match(long))


def _plain(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    word = _ABILITY.sub("ble", word)  # liability, liable
    stem = max(stems(word), key=len, default=word).translate(_UMLAUTS)
    return _GE.sub("", stem, count=1)


_IRREGULAR = dict(
    pair.split("/")
    for pair in (
        "paid/pay sold/sell bought/buy held/hold given/give gave/give taken/take took/take "
        "made/make "
        "sent/send kept/keep left/leave lost/lose built/build brought/bring written/write "
        "wrote/write met/meet found/find won/win began/begin begun/begin chosen/choose "
        "chose/choose known/know shown/show driven/drive drove/drive led/lead ran/run spent/spend"
    ).split()
)
_LANGUAGES = ("english", "german")
_ABILITY = re.compile("bilit(?:y|ies)$")
_UMLAUTS = str.maketrans("äöü", "aou")
_GE = re.compile("(?<=^ab|^an|^vo|^zu)ge|(?<=^auf|^aus|^ein|^mit|^vor)ge|^ge(?=[a-z]{6})")
_ROLE = re.compile(r"([a-z]{3,}?)(ee|er|or)s?")
_PREFIX = re.compile("ver|unter|ent|miss|nicht")
