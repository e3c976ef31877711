"""Find periods in a text, such as "five (5) years" or "30 Tage", in months or seconds."""

import re
from collections.abc import Iterator
from decimal import Decimal

from rag_pipeline.answering.quantities.numbers import (
    FOREIGN_WORDS,
    NUMBER,
    FactValue,
    Found,
    read_number,
)
from rag_pipeline.imports import compiled

_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_UNITS: dict[str, tuple[str, int]] = {
    "second": ("seconds", 1),
    "minute": ("seconds", 60),
    "hour": ("seconds", 3_600),
    "day": ("seconds", 86_400),
    "week": ("seconds", 604_800),
    "fortnight": ("seconds", 1_209_600),
    "month": ("months", 1),
    "quarter": ("months", 3),
    "year": ("months", 12),
    "decade": ("months", 120),
    "yr": ("months", 12),
    "mo": ("months", 1),
    "mth": ("months", 1),
    "wk": ("seconds", 604_800),
    "hr": ("seconds", 3_600),
    "min": ("seconds", 60),
    "sec": ("seconds", 1),
}
_UNIT = "|".join(_UNITS)
_WORKING = ("business", "working")
_DURATION = (
    rf"(?i)(?P<number>{NUMBER})(?P<half>\s+and\s+(?:a|one)[\s-]half)?[\s-]*"
    r"(?:or\s+(?:more|less|fewer)\s+)?"
    r"(?P<kind>business|working|calendar|consecutive|full|whole)?\s*"
    rf"(?P<unit>{_UNIT})s?\b"
)
_ONE = (
    r"(?i)(?:^|(?<=\bwithin )|(?<=\bfor )|(?<=\bleast )|(?<=\bmost )|(?<=\bthan )|"
    r"(?<=\bperiod of )|(?<=\bterm of ))"
    r"an?\s+(?P<unit>second|minute|hour|day|week|month|year)\b(?!['’])"
    r"|\ban?\s+(?P<before>hour|day|week|month|year)(?=\s+(?:after|before|from|later)\b|['’]s\s+notice)"
    r"|\ba\s+(?P<long>fortnight|decade|century)\b"
)
"""A period of one unit. The bare "a day" is missing, because it is mostly a rate."""
_PART = (
    r"(?i)\b(?P<part>half|a\s+quarter|three[\s-]quarters)\s+(?:of\s+)?(?:an?|one)\s+"
    r"(?P<unit>minute|hour|day|month|year)\b"
)
_PARTS = {"half": Decimal("0.5"), "a quarter": Decimal("0.25"), "three quarters": Decimal("0.75")}
_ORDINAL = (
    rf"(?i)\b(?P<word>{'|'.join(_ORDINALS[1:])}|\d{{1,3}}(?:st|nd|rd|th))"
    r"(?:\s*\(\s*\d{1,3}(?:st|nd|rd|th)?\s*\))?\s+(?:(?:business|working|calendar|consecutive|"
    rf"contract)\s+)?(?P<unit>{_UNIT}|anniversary)\b(?!\s+of\s+(?-i:[A-Z]))"
)
_AND = re.compile(r",?\s+(?:and\s+)?")
_FOREIGN_UNITS = {
    "second": "sekunden? secondes? segundos?",
    "minute": "minuten? minutes? minutos?",
    "hour": "stunden? heures? horas?",
    "day": "tage?[ns]? jours? d[ií]as?",
    "week": "wochen? semaines? semanas?",
    "month": "monat(?:e[ns]?|s)? mois mes(?:es)?",
    "year": "jahr(?:e[ns]?|es|s)? ans? années? años?",
}
_FOREIGN_UNIT = "|".join(
    f"(?P<{unit}>{'|'.join(words.split())})" for unit, words in _FOREIGN_UNITS.items()
)
_FOREIGN = (
    rf"(?i)(?P<number>{NUMBER}|\b(?:{FOREIGN_WORDS})(?:\s*\(\s*\d+\s*\))?)\s*"
    rf"(?P<werk>werk|arbeits)?(?:{_FOREIGN_UNIT})\b"
    r"(?P<after>\s+(?:ouvr[ée]s?|ouvrables?|hábiles|laborables))?"
)
_MAY_BE_FOREIGN = (
    r"(?i)\b(?:(?:werk|arbeits)?tage?[ns]?|sekunde|minuten|stunde|woche|monat|jahr|seconde|heure|jour|"
    r"semaine|mois|ans|un an|année|segundo|minuto|horas?|d[ií]as?|semana|mes(?:es)?|años?)"
)


def durations_in(text: str) -> Iterator[Found]:
    """Yield the periods of a text, including ordinal periods such as "the third year"."""
    last: Found | None = None
    for match in compiled(_DURATION).finditer(text):
        amount = read_number(match["number"] + (match["half"] or ""))
        if amount is None:
            continue
        unit = match["unit"].casefold()
        value = _value(unit, amount, (match["kind"] or "").casefold() in _WORKING)
        found = (*match.span(), value)
        yield found
        is_more = last and last[2][0] == value[0] and Decimal(last[2][1]) > Decimal(value[1])
        if last and is_more and _AND.fullmatch(text, last[1], match.start()):
            # one year and three months
            yield last[0], match.end(), (value[0], Decimal(last[2][1]) + Decimal(value[1]))
        last = found
    for match in compiled(_ONE).finditer(text):
        unit = (match["unit"] or match["before"] or match["long"]).casefold()
        yield *match.span(), _value(*(("decade", 10) if unit == "century" else (unit, 1)))
    for match in compiled(_PART).finditer(text):
        part = _PARTS[" ".join(match["part"].casefold().replace("-", " ").split())]
        yield *match.span(), _value(match["unit"].casefold(), part)
    for match in compiled(_ORDINAL).finditer(text):
        word = match["word"].casefold()
        place = _ORDINALS.index(word) if word in _ORDINALS else int(re.sub(r"\D", "", word))
        yield *match.span(), (f"nth {match['unit'].casefold()}", place)
    if compiled(_MAY_BE_FOREIGN).search(text):
        yield from _foreign(text)


def _foreign(text: str) -> Iterator[Found]:
    for match in compiled(_FOREIGN).finditer(text):
        amount = read_number(match["number"])
        unit = next(unit for unit in _FOREIGN_UNITS if match[unit])
        # "30 an hour" is English.
        if amount is None or (match[unit].casefold() == "an" and amount != 1):
            continue
        yield *match.span(), _value(unit, amount, bool(match["werk"] or match["after"]))


def _value(unit: str, amount: Decimal | int, working: bool = False) -> FactValue:
    if working:
        return f"working {unit}", Decimal(amount).normalize()
    measure, size = _UNITS[unit]
    return measure, (Decimal(amount) * size).normalize()
