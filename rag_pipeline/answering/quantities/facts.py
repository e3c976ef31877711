"""Read the facts of a text: quantities, counts, ordinals, rates, days of the week, measurements.

Besides the values of `values.quantities`, there are ("number", 5), ("nth", 2), ("weekday", 1) for
Monday, ("month name", 1) for January, ("per", "month") and ("km", 15).
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from rag_pipeline.answering.quantities.numbers import FOREIGN_WORDS, NUMBER, FactValue, read_number
from rag_pipeline.answering.quantities.values import Quantity, quantities

_HOURS = dict.fromkeys(("morning", "früh", "morgens"), 0) | dict.fromkeys(
    ("afternoon", "evening", "nachmittags", "abends"), 12
)
_WORDINGS = (
    # Numbers of clauses and headings are no facts.
    (r"(?m)^\s*(?:#+\s*)?(?:\d+(?:\.\d+)+\.?|\d+[.)]|\([a-z\d]{1,3}\))\s+(?=[A-ZÄÖÜ“\"(])", ""),
    (r"(?i)(?:\b(?:article|clause|section|artikel|ziffer|absatz)|§+)\s*\d+(?:\.\d+)*\.?", " "),
    (r"(?i)\b(\d{1,2})[.:](\d\d)(?=\s*uhr\b)", r"\1:\2"),
    (r"(?i)(?<![:\d])\b(\d{1,2})(?=\s*(?:uhr|o['’]clock)\b)", r"\1:00"),
    (r"(?i)\b(?:ein(?:ein)?halb|anderthalb|one and a half)(?=\W)", "1.5"),
    (r"(?i)\bzweieinhalb\b", "2.5"),
    (r"(?i)\bdreieinhalb\b", "3.5"),
    (r"(?i)\bhalf[ -](?=hour)", "0.5 "),
    (r"(?i)\b(?:half an?|(?:ein(?:en|er)? )?halbe[rn]?) (?=[a-zäöü]+)", "0.5 "),
    (r"(?i)\bviertelstunde\b|\bquarter of an hour\b", "15 minutes"),
    (r"(?i)\bdreiviertelstunde\b", "45 minutes"),
    (r"(?i)\b(?:ein|one|a) (?:fünftel|fifth)\b", "20 percent"),
    (r"(?i)\b(?:ein|one|a) (?:zehntel|tenth)\b", "10 percent"),
    (r"(?i)\b(?:ein|one|a) (?:viertel|quarter) (?=of|der|des)", "25 percent "),
    (r"(?i)\b(?:ein|one|a) (?:drittel|third)\b(?![ -](?:part|person))", "one third "),
    (r"(?i)\b(?:zwei drittel|two thirds)\b", "two thirds "),
    (r"(?i)\b(?:die|der) hälfte\b", "50 percent"),
    (r"\bUS-Dollar", "US dollar"),
    (r"(?i)\btwice\b", "2 times"),
    (r"(?i)\b(zwei|drei|vier|fünf)mal\b", r"\1 mal"),
    (r"(?i)\ba dozen\b", "12"),
    (
        r"(?i)\b((?:\d+|[a-zäöüß]+) )(?!werk|arbeits)[a-zäöüß]{3,}(?=(?:tage|monate|jahre)n?\b)",
        r"\1",
    ),
    (r"(?i)(\d)[\s-](?=minute|hour|day|week|month|year)", r"\1 "),
    (r"(?<=\d)\.(?=\d{3}(?:\D|$))", ""),
)
_OF_DAY = re.compile(rf"(?i)\b(\d{{1,2}})(?:[:.](\d\d))?(?: in the| uhr)? ({'|'.join(_HOURS)})\b")
_UNITS = {
    "c": "°c|grad celsius|degrees? celsius", "f": "°f|grad fahrenheit|degrees? fahrenheit",
    "km": "km|kilomet(?:er|re)[ns]?", "mi": "miles?|meilen?", "m": "m|met(?:er|re)[ns]?",
    "cm": "cm|zentimetern?|centimet(?:er|re)s?", "mm": "mm|millimetern?|millimet(?:er|re)s?",
    "in": "inch(?:es)?|zoll", "ft": "feet|foot|ft", "kg": "kg|kilo(?:gram(?:m?e?s?)|s)?",
    "g": "g|gramm?e?s?", "mg": "mg|milligramm?s?", "lb": "lbs?", "oz": "oz|ounces?|unzen",
    "l": "l|lit(?:er|re)[ns]?", "ml": "ml|millilit(?:er|re)[ns]?", "kw": "kw|kilowatts?",
    "kwh": "kwh", "w": "w|watts?", "v": "v|volts?", "a": "amps?|ampere", "mah": "mah", "ah": "ah",
    "gb": "gb|gigabytes?", "mb": "mb|megabytes?", "tb": "tb|terabytes?", "bar": "bar",
    "t": "tonnes?|tons?|tonnen?", "ha": "ha|hektar|hectares?",
    "qm": "m²|qm|quadratmetern?|square met(?:er|re)s?",
}  # fmt: skip
_NUMBER = re.compile(
    rf"(?i)(?P<number>{NUMBER}|\b(?:{FOREIGN_WORDS})\b)(?:[\s-]?(?:"
    + "|".join(f"(?P<{unit}>{words})" for unit, words in _UNITS.items())
    + r")(?![\w²]))?"
)
_NO_NUMBER = frozenset(
    "one once ein eine einen einem einer eines un une uno una cent mil mille cents".split()
)
_NTH = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
_NTH_DE = "erst zweit dritt viert fünft sechst siebt acht neunt zehnt elft zwölft".split()
_ORDINAL = re.compile(
    rf"(?i)\b(?:(?P<en>{'|'.join(_NTH)})|(?P<de>{'|'.join(_NTH_DE)})e[nmrs]?|(?P<digits>\d{{1,3}})"
    r"(?:st|nd|rd|th|\.(?=\s+(?-i:[A-ZÄÖÜ][a-zäöü]))))\b|"
    r"(?<!\w)(?P<dot>\d{1,2})\.(?=\s+(?-i:[A-ZÄÖÜ][a-zäöü]))"
)
_DAYS = (
    "mon(?:day|tag)", "tues?day|dienstag", "wednesday|mittwoch", "thursday|donnerstag",
    "fri(?:day|tag)", "saturday|samstag|sonnabend", "sun(?:day|tag)|sonntag",
)  # fmt: skip
_DAY = re.compile("(?i)\\b(?:" + "|".join(f"({day})" for day in _DAYS) + ")s?\\b")
_MONTHS = (
    "jan(?:uary|uar)", "febr?uary?|februar", "march|märz", "april", "(?-i:May)|mai", "jun[ei]",
    "jul[yi]", "august", "september", "o[ck]tober", "november", "de[cz]ember",
)  # fmt: skip
_MONTH = re.compile("(?i)\\b(?:" + "|".join(f"({month})" for month in _MONTHS) + ")s?\\b")
_DAY_RANGE = re.compile(r"(?i)\s*(?:to|through|bis|-|–)\s*")
_RATES = {
    "hour": ("hourly|stündlich", "hour|stunde"),
    "day": ("daily|täglich", "day|tag|tages"),
    "week": ("weekly|wöchentlich", "week|woche"),
    "month": ("monthly|monatlich", "month|monat|monats"),
    "quarter": ("quarterly|vierteljährlich|quartalsweise", "quarter|quartal"),
    "year": ("annual|annually|yearly|jährlich", "year|jahr|jahres"),
}
_EACH = "per|each|every|pro|je|jede[nmrs]?|an?|am|im|in der|of the|des"
_RATE = re.compile(
    "(?i)"
    + "|".join(
        rf"(?P<{unit}>\b(?:(?:{adverb})(?:e[nmrs]?)?|(?:{_EACH}) (?:{noun}))\b|"
        rf"\b(?:{noun})(?=\w{{4}}))"
        for unit, (adverb, noun) in _RATES.items()
    )
)


@lru_cache(maxsize=2_000)
def plain(text: str) -> str:
    """Remove the numbers of clauses from a text, and write times and fractions as numbers."""
    text = _OF_DAY.sub(
        lambda m: f"{int(m[1]) + (_HOURS[m[3].lower()] if int(m[1]) < 12 else 0)}:{m[2] or '00'}",
        text,
    )
    for pattern, wording in _WORDINGS:
        text = re.sub(pattern, wording, text)
    return text


@lru_cache(maxsize=2_000)
def facts(text: str) -> tuple[Quantity, ...]:
    """Return the facts of a text that `plain` has returned."""
    found = quantities(text)
    taken = bytearray(len(text))
    for quantity in found:
        taken[quantity.start : quantity.end] = b"1" * (quantity.end - quantity.start)
    more = sorted(_others(text), key=lambda q: (q.start, -q.end))
    for one in more:
        if one.kind in ("RATE", "DAY") or not any(taken[one.start : one.end]):
            found.append(one)
            if one.kind not in ("RATE", "DAY"):
                taken[one.start : one.end] = b"1" * (one.end - one.start)
    return tuple(found)


def _others(text: str) -> Iterator[Quantity]:
    for match in _ORDINAL.finditer(text):
        if match["en"]:
            value = _NTH.index(match["en"].lower()) + 1
        elif match["de"]:
            value = _NTH_DE.index(match["de"].lower()) + 1
        else:
            value = int(match["digits"] or match["dot"])
        yield Quantity("ORDINAL", *match.span(), ("nth", value))
    for match in _MONTH.finditer(text):
        yield Quantity("DAY", *match.span(), ("month name", match.lastindex or 0))
    days = [(m, (m.lastindex or 0)) for m in _DAY.finditer(text)]
    for n, (match, day) in enumerate(days):
        until = day
        if n + 1 < len(days) and _DAY_RANGE.fullmatch(text, match.end(), days[n + 1][0].start()):
            until = days[n + 1][1]
        for each in range(day, until + 1):
            yield Quantity("DAY", *match.span(), ("weekday", each))
    for match in _RATE.finditer(text):
        yield Quantity("RATE", *match.span(), ("per", str(match.lastgroup)))
    for match in _NUMBER.finditer(text):
        unit = next((unit for unit in _UNITS if match[unit]), "")
        number = (
            None
            if match["number"].casefold() in _NO_NUMBER and not unit
            else read_number(match["number"])
        )
        if number is not None:
            yield Quantity("NUMBER", *match.span(), (unit or "number", number.normalize()))


def number_of(value: FactValue) -> Decimal | None:
    """Return the number of a count or measurement, or None for any other value."""
    return Decimal(value[1]) if value[0] in (*_UNITS, "number") else None
