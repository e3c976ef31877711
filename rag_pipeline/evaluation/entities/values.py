"""Texts of quantities -> what they amount to, so that "five (5) years" equals "60 months".

A value is a tuple to compare: ("months", 60), ("USD", 10000), ("percent", 50), ("date", 6, 30).
Units are converted where the conversion is exact: years are months, weeks days, days hours, hours
and minutes seconds. A month is no number of days, and a business day is not a day.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

Value = tuple[str | Decimal | int, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in a text: what kind of entity it is, where it stands, what it amounts to."""

    kind: str
    start: int
    end: int
    value: Value


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_SMALL = {word: n for n, word in enumerate(_ONES)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_LARGE = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join(sorted([*_SMALL, *_LARGE], key=len, reverse=True))
_WORDS = rf"(?>(?:{_WORD})(?:(?:\s{{1,3}}and\s{{1,3}}|[\s-]{{1,3}})(?={_WORD})|\b)){{1,12}}+"
_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_NUMBER = (
    rf"(?:\b{_WORDS}\s*\(\s*(?:{_DIGITS})\s*%?\s*\)"
    rf"|(?<![\w.,])(?:{_DIGITS})(?:\s*\(\s*{_WORDS}\s*\))?|\b{_WORDS})"
)
"""Digits, words, or both with one of them in parentheses; then the digits count."""

_UNITS: dict[str, tuple[str, int]] = {
    "second": ("seconds", 1),
    "minute": ("seconds", 60),
    "hour": ("seconds", 3_600),
    "day": ("seconds", 86_400),
    "week": ("seconds", 604_800),
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
_DURATION = re.compile(
    rf"(?P<number>{_NUMBER})[\s-]*(?P<kind>business|working|calendar|consecutive|full|whole)?\s*"
    rf"(?P<unit>{'|'.join(_UNITS)})s?\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    rf"\b(?P<word>{'|'.join(_ORDINALS[1:])}|\d{{1,3}}(?:st|nd|rd|th))"
    r"(?:\s*\(\s*\d{1,3}(?:st|nd|rd|th)?\s*\))?\s+(?:(?:business|working|calendar|consecutive|"
    rf"contract)\s+)?(?P<unit>{'|'.join(_UNITS)}|anniversary)\b",
    re.IGNORECASE,
)

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH = "|".join(f"{m}|{m[:3]}" if m != "may" else "may" for m in _MONTHS)
_DATE = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})\.?"
    rf"|(?P<us_month>{_MONTH})\.?\s+(?P<us_day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))"
    r"(?:,?\s+(?P<year>(?:1[89]|20|21)\d\d)\b)?"
    r"|\b(?P<iso>(?:1[89]|20|21)\d\d-[01]\d-[0-3]\d)\b"
    r"|(?<![\w/.])(?P<first>\d{1,2})(?P<mark>[/.])(?P<second>\d{1,2})(?P=mark)"
    r"(?P<full>(?:1[89]|20|21)\d\d)(?![\w/])",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap])\.?\s?m\b\.?|\bnoon\b|\bmidnight\b",
    re.IGNORECASE,
)

_SYMBOLS = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CODES = "USD EUR GBP CHF JPY CAD AUD NZD SEK NOK DKK INR CNY SGD HKD ZAR BRL PLN".split()
_NAMES = {
    "us dollar": "USD",
    "u.s. dollar": "USD",
    "united states dollar": "USD",
    "dollar": "USD",
    "euro": "EUR",
    "pound sterling": "GBP",
    "pounds sterling": "GBP",
    "pound": "GBP",
    "swiss franc": "CHF",
    "yen": "JPY",
}
_NAMED = "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
_SCALE = r"(?:\s*(?P<scale>thousand|million|billion|bn|[mk])\b)?"
_MONEY = re.compile(
    rf"(?:(?P<symbol>US\$|[$€£¥₹])\s*|\b(?P<code>{'|'.join(_CODES)})\s+)"
    rf"(?P<number>{_DIGITS}){_SCALE}"
    rf"|(?P<words>{_NUMBER})(?:\s*(?P<scale_after>million|billion|thousand))?\s+"
    rf"(?:(?P<code_after>{'|'.join(_CODES)})\b|(?P<name>{_NAMED})s?\b)",
    re.IGNORECASE,
)
_SCALES = {"k": 1_000, "m": 1_000_000, "bn": 1_000_000_000} | _LARGE
_PERCENT = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?:%|percent\b|per\s+cent\b)(?:\s*\(\s*(?:{_DIGITS})\s*%\s*\))?"
    rf"|\b(?P<fraction>half|one[\s-]third|two[\s-]thirds|three[\s-]quarters|one[\s-]quarter)\b",
    re.IGNORECASE,
)
_FRACTIONS = {
    "half": Decimal(50),
    "one third": Decimal(100) / 3,
    "two thirds": Decimal(200) / 3,
    "three quarters": Decimal(75),
    "one quarter": Decimal(25),
}


def quantities(text: str) -> list[Quantity]:
    """Return the durations, dates, times of day, sums and percentages of a text, in order.

    Where two overlap the one that starts first stays, and of these the longer.
    """
    found = sorted(_all(text), key=lambda q: (q.start, -q.end))
    kept: list[Quantity] = []
    for quantity in found:
        if not kept or quantity.start >= kept[-1].end:
            kept.append(quantity)
    return kept


def same_value(one: Value, other: Value) -> bool:
    """Tell whether two values are the same; a date without a year fits any year.

    1/2/2024 is the second of January and the first of February: it fits both.
    """
    if "either date" in (one[0], other[0]):
        return any(
            same_value(a, b)
            for a in (_readings(one) if one[0] == "either date" else [one])
            for b in (_readings(other) if other[0] == "either date" else [other])
        )
    if one[0] == other[0] == "date":
        return one[1:3] == other[1:3] and (len(one) == 3 or len(other) == 3 or one[3] == other[3])
    return one == other


def _readings(value: Value) -> list[Value]:
    _, first, second, year = value
    return [("date", first, second, year), ("date", second, first, year)]


def bound_of(text: str, quantity: Quantity) -> str:
    """Return "least", "most", or "" by the words around a quantity: "at least 30 days"."""
    before, after = text[: quantity.start], text[quantity.end :]
    for bound, (ahead, behind) in _BOUNDS.items():
        if ahead.search(before) or behind.match(after):
            return bound
    return ""


_BOUNDS = {
    # "no more than" is read before "more than".
    "most": (
        re.compile(
            r"(?:\bat (?:the )?most|\b(?:no|not) (?:more|longer|later|greater|higher) than|"
            r"\bup to|\bmaximum(?: of)?|\b(?:not|never) (?:to )?exceed(?:ing)?|"
            r"(?<!no )(?<!not )\b(?:less|fewer) than|\bunder|\bbelow)\s+(?:a |an )?$",
            re.IGNORECASE,
        ),
        re.compile(r"\s+(?:or (?:less|fewer|under|earlier)|at (?:the )?most)\b", re.IGNORECASE),
    ),
    "least": (
        re.compile(
            r"(?:\bat (?:the )?least|\b(?:no|not) (?:less|fewer|shorter|earlier|lower) than|"
            r"\bminimum(?: of)?|\b(?:more|longer|greater|higher) than|"
            r"(?<!not )(?<!not to )(?<!never )\bexceed(?:s|ing)?|\bover|\babove)\s+(?:a |an )?$",
            re.IGNORECASE,
        ),
        re.compile(r"\s+(?:or (?:more|longer|over|later)|at (?:the )?least)\b", re.IGNORECASE),
    ),
}


def read_number(text: str) -> Decimal | None:
    """Return the number that digits, words or both spell; None where they spell none."""
    digits = re.search(_DIGITS, text)
    if digits:
        return Decimal(digits.group().replace(",", ""))
    total = group = 0
    words = [word for word in re.split(r"[\s-]+", text.casefold()) if word != "and"]
    if not words or any(word not in _SMALL and word not in _LARGE for word in words):
        return None
    for word in words:
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        else:
            total += max(group, 1) * _LARGE[word]
            group = 0
    return Decimal(total + group)


def _all(text: str) -> Iterator[Quantity]:
    for match in _PERCENT.finditer(text):
        fraction = match["fraction"]
        amount = (
            _FRACTIONS[re.sub(r"[\s-]+", " ", fraction.casefold())]
            if fraction
            else read_number(match["number"])
        )
        if amount is not None:
            yield _quantity("PERCENTAGE", match, ("percent", amount.normalize()))
    for match in _MONEY.finditer(text):
        money = _money(match)
        if money is not None:
            yield _quantity("MONEY", match, money)
    for match in _DURATION.finditer(text):
        amount = read_number(match["number"])
        if amount is not None:
            unit, size = _UNITS[match["unit"].casefold()]
            working = (match["kind"] or "").casefold() in ("business", "working")
            value: Value = (f"working {match['unit'].casefold()}", amount.normalize())
            yield _quantity(
                "TIME", match, value if working else (unit, (amount * size).normalize())
            )
    for match in _ORDINAL.finditer(text):
        word = match["word"].casefold()
        place = _ORDINALS.index(word) if word in _ORDINALS else int(re.sub(r"\D", "", word))
        yield _quantity("TIME", match, (f"nth {match['unit'].casefold()}", place))
    for match in _DATE.finditer(text):
        yield _quantity("TIME", match, _date(match))
    for match in _CLOCK.finditer(text):
        yield _quantity("TIME", match, _clock(match))


def _quantity(kind: str, match: re.Match[str], value: Value) -> Quantity:
    return Quantity(kind, match.start(), match.end(), value)


def _money(match: re.Match[str]) -> Value | None:
    amount = read_number(match["number"] or match["words"])
    if amount is None:
        return None
    scale = (match["scale"] or match["scale_after"] or "").casefold()
    code = match["code"] or match["code_after"]
    if code:
        currency = code.upper()
    elif match["symbol"]:
        currency = _SYMBOLS[match["symbol"].upper()]
    else:
        currency = _NAMES[re.sub(r"\s+", " ", match["name"].casefold())]
    return currency, (amount * _SCALES.get(scale, 1)).normalize()


def _date(match: re.Match[str]) -> Value:
    if match["full"]:
        first, second, year = (int(match[part]) for part in ("first", "second", "full"))
        if match["mark"] == "." or first > 12:
            return "date", second, first, year
        if second > 12 or first == second:
            return "date", first, second, year
        return "either date", first, second, year
    if match["iso"]:
        year, month, day = (int(part) for part in match["iso"].split("-"))
        return "date", month, day, year
    name = (match["month"] or match["us_month"]).casefold()[:3]
    number = next(n for n, month in enumerate(_MONTHS, 1) if month.startswith(name))
    date: Value = ("date", number, int(match["day"] or match["us_day"]))
    return (*date, int(match["year"])) if match["year"] else date


def _clock(match: re.Match[str]) -> Value:
    if match["hour"] is None:
        return "clock", 12 * 60 if match.group().casefold() == "noon" else 0
    hour = int(match["hour"]) % 12 + (12 if match["half"].casefold() == "p" else 0)
    return "clock", hour * 60 + int(match["minute"] or 0)
