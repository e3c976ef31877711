"""Read quantities in a text as comparable values: "five (5) years" equals "60 months".

A value is a tuple: ("months", 60), ("USD", 10000), ("percent", 50), ("date", 6, 30). Only exact
conversions are made. Years become months. Weeks, days, hours and minutes become seconds. A month is
not a number of days, and a business day is not a day.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from rag_pipeline.answering.quantities.amounts import amounts_in, percentages_in
from rag_pipeline.answering.quantities.dates import dates_in
from rag_pipeline.answering.quantities.durations import durations_in
from rag_pipeline.answering.quantities.numbers import FactValue


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in a text: its kind of entity, its span and its value."""

    kind: str
    start: int
    end: int
    value: FactValue


def quantities(text: str) -> list[Quantity]:
    """Return the durations, dates, times of day, sums and percentages of a text, in order.

    Of two overlapping quantities, only the first is returned. If both have the same start, only the
    longer is returned.
    """
    found = [Quantity("PERCENTAGE", *place) for place in percentages_in(text)]
    found += [Quantity("MONEY", *place) for place in amounts_in(text)]
    found += [Quantity("TIME", *place) for place in (*durations_in(text), *dates_in(text))]
    kept: list[Quantity] = []
    for quantity in sorted(found, key=lambda q: (q.start, -q.end)):
        if not kept or quantity.start >= kept[-1].end:
            kept.append(quantity)
    return kept


def same_value(one: FactValue, other: FactValue) -> bool:
    """Return whether two values are the same. A date without a year matches any year.

    1/2/2024 matches the second of January and the first of February. An amount in cents matches
    the same amount in any currency.
    """
    if "either date" in (one[0], other[0]):
        return any(
            same_value(a, b)
            for a in (_readings(one) if one[0] == "either date" else [one])
            for b in (_readings(other) if other[0] == "either date" else [other])
        )
    if one[0] == other[0] == "date":
        return one[1:3] == other[1:3] and (len(one) == 3 or len(other) == 3 or one[3] == other[3])
    if (one[0] == "cent") != (other[0] == "cent"):
        cents, whole = (one, other) if one[0] == "cent" else (other, one)
        is_money = len(str(whole[0])) == 3 and str(whole[0]).isupper()
        return is_money and cents[1] == 100 * Decimal(whole[1])
    if one[0] == other[0] == "percent" and one != other:
        # A third is often written as 33.3 %.
        return any(len(str(v[1])) > 10 for v in (one, other)) and (
            abs(Decimal(one[1]) - Decimal(other[1])) < Decimal("0.05")
        )
    return one == other


def states(said: FactValue, wanted: FactValue) -> bool:
    """Return whether `said` states `wanted`. A date with a year also states its month."""
    if wanted[0] == "month" and said[0] == "date" and len(said) == 4:
        return (said[1], said[3]) == wanted[1:]
    return same_value(said, wanted)


def _readings(value: FactValue) -> list[FactValue]:
    _, first, second, year = value
    return [("date", first, second, year), ("date", second, first, year)]


def bound_of(text: str, quantity: Quantity) -> str:
    """Return "least", "most" or "" by the words around a quantity ("at least 30 days")."""
    before = text[max(0, quantity.start - _NEAR) : quantity.start]
    after = text[quantity.end : quantity.end + _NEAR]
    inside = text[quantity.start : quantity.end]
    is_date = quantity.value[0] in ("date", "either date", "month", "clock")
    for bound, (ahead, behind, of_dates) in _BOUNDS.items():
        if ahead.search(before) or behind.match(after) or behind.search(inside):
            return bound
        if is_date and of_dates.search(before):
            return bound
    return ""


_NEAR = 100
"""Number of characters on each side of a quantity that may hold the words of its bound."""


def _ahead(*patterns: str) -> re.Pattern[str]:
    filler = r"(?:an? |the |a[mb] |im |zum |(?:period|sum|amount|total|term)s? of |de |von |d[’'])*"
    return re.compile(rf"(?:{'|'.join(patterns)})\s+{filler}$", re.IGNORECASE)


_BOUNDS = {
    # "no more than" is read before "more than", "not before" before "before".
    "most": (
        _ahead(
            r"\bat (?:the )?(?:most|latest),?",
            r"\b(?:no|not) (?:more|longer|later|greater|higher) than",
            r"\bup to(?: and including)?",
            r"\bmaximum(?: \w+)?(?: of)?",
            r"\b(?:not|never) (?:to )?exceed(?:ing)?",
            r"(?<!no )(?<!not )\b(?:less|fewer) than",
            r"\b(?:under|below|within|unter)",
            r"\b(?:shorter|smaller|lighter|narrower|younger|kürzer|jünger) (?:than|als)",
            r"\b(?:capped|limited) (?:at|to)",
            r"\bhöchstens|\bmaximal|\bspätestens(?: \w+)?|\binnerhalb(?: von)?|\bbinnen|\bbis zu",
            r"\b(?:weniger|nicht mehr) als|\bmenos(?= de)|\bhasta",
            r"\bau (?:plus|maximum)|\bun maximum|\bdans un délai|\bjusqu['’]à",
            r"(?<!au )\bmoins(?= d)|\b(?:pas|jamais) plus(?= d)|\binférieure?s? à",
            r"\bcomo máximo|\ba más tardar|\bun máximo|\ben un plazo(?: máximo)?",
        ),
        re.compile(
            r"\s*\b(?:or (?:less|fewer|under|earlier)|ou moins|oder weniger)\b"
            r"|\s+(?:at (?:the )?(?:most|latest)|maximum)\b"
            r"|\s+(?:au (?:plus|maximum)|como máximo|höchstens)",
            re.IGNORECASE,
        ),
        re.compile(
            r"(?:(?<!not )\bbefore|\bby|\bon or before|\buntil|\bbis|\bvor dem)\s+(?:the )?$", re.I
        ),
    ),
    "least": (
        _ahead(
            r"\bat (?:the )?least",
            r"\b(?:no|not) (?:less|fewer|shorter|earlier|lower) than",
            r"\bminimum(?: \w+)?(?: of)?",
            r"\b(?:more|longer|greater|higher) than",
            r"(?<!not )(?<!not to )(?<!never )\bexceed(?:s|ing)?",
            r"\b(?:over|above|über)",
            r"\b(?:larger|bigger|heavier|wider|taller|older|länger|älter) (?:than|als)",
            r"\bmindestens|\bwenigstens|\bfrühestens|(?<!nicht )\bmehr als",
            r"\bau (?:moins|minimum)|\bun minimum|(?<!pas )(?<!jamais )\bplus(?= d)",
            r"\bau[- ]delà|\bsupérieure?s? à|\bà partir",
            r"\b(?:al menos|como mínimo|por lo menos|un mínimo|más)",
        ),
        re.compile(
            r"\s*\b(?:or (?:more|longer|over|later)|ou plus|oder mehr)\b"
            r"|\s+(?:at (?:the )?(?:least|earliest)|minimum)\b"
            r"|\s+(?:au (?:moins|minimum)|como mínimo|mindestens)",
            re.IGNORECASE,
        ),
        re.compile(r"(?:\bafter|\bnot before|\bfrom|\bab dem|\bnach dem)\s+(?:the )?$", re.I),
    ),
}
