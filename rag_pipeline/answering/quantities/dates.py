"""Find dates, months and times of day in a text.

Values are ("date", month, day[, year]), ("month", month, year) and ("clock", minute of the day). If
either number of a date may be the month, it is ("either date", first, second, year).
"""

import re
from collections.abc import Iterator, Sequence

from rag_pipeline.answering.quantities.numbers import FactValue, Found

_NAMES = (
    "january|jan|januar|janvier|enero|ene",
    "february|feb|februar|février|fevrier|febrero",
    "march|mar|märz|maerz|mars|marzo",
    "april|apr|avril|abril",
    "may|mai|mayo",
    "june|jun|juni|juin|junio",
    "july|jul|juli|juillet|julio",
    "august|aug|août|aout|agosto",
    "september|sept|sep|septembre|septiembre",
    "october|oct|oktober|okt|octobre|octubre",
    "november|nov|novembre|noviembre",
    "december|dec|dezember|dez|décembre|decembre|diciembre|dic",
)
_NUMBER = {name: n for n, names in enumerate(_NAMES, 1) for name in names.split("|")}
_MONTH = "|".join(sorted(_NUMBER, key=len, reverse=True))
_YEAR = r"(?:1[89]|20|21)\d\d"
_DATE = re.compile(
    r"\b(?:(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?(?:\s+day)?(?:\s+(?:of\s+|de\s+)?|[-/])"
    rf"(?P<month>{_MONTH})\b\.?"
    rf"|(?P<us_month>{_MONTH})\.?\s+(?P<us_day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))"
    rf"(?:(?:,?\s+(?:del?\s+)?|[-/])(?P<year>{_YEAR})\b)?"
    rf"|\b(?P<iso>{_YEAR}(?P<dash>[-/])[01]\d(?P=dash)[0-3]\d)\b"
    rf"|(?<![\w-])(?P<compact>{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))(?![\w-])"
    r"|(?<![\w/.-])(?P<first>\d{1,2})(?P<mark>[/.-])(?P<second>\d{1,2})(?P=mark)"
    rf"(?P<full>{_YEAR}|\d\d(?=\D|$))(?![\w/]|[.-]\d)",
    re.IGNORECASE,
)
_MONTH_OF = re.compile(
    rf"\b(?P<name>{_MONTH})\.?,?\s+(?:of\s+|del?\s+)?(?P<year>{_YEAR})\b"
    rf"|(?<![\w/.-])(?P<number>0?[1-9]|1[0-2])/(?P<of>{_YEAR})(?![\w/])",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>[ap])\.?\s?m\b\.?"
    r"|(?<![\d:.,])(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])"
    r"(?:\s*(?:hours|hrs|Uhr)\b)?|\bnoon\b|\bmidnight\b",
    re.IGNORECASE,
)

_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)(?![\d/])")
_PERIOD = re.compile(
    r"\b(?:between|until|till|since|onwards?|from\b.+\bto|zwischen|seit|bis|entre|depuis)\b"
    rf"|\b(?:before|after|vor|nach|ab|avant|après|antes) (?:\w+ )?(?=\d|(?:{_MONTH})\b)"
    r"|(?<![\d.–-])\d{1,2}\.? ?[–-] ?\d{1,2}\b(?![\d–-])",  # the days 1-3
    re.IGNORECASE,
)


def dates_in(text: str) -> Iterator[Found]:
    """Yield the dates, months and times of day of a text."""
    for match in _DATE.finditer(text):
        value = _date(match)
        if value is not None:
            yield *match.span(), value
    for match in _MONTH_OF.finditer(text):
        name = match["name"]
        month = _NUMBER[name.casefold()] if name else int(match["number"])
        yield *match.span(), ("month", month, int(match["year"] or match["of"]))
    for match in _CLOCK.finditer(text):
        yield *match.span(), ("clock", _minutes(match))


def days_asked(question: str) -> list[Found]:
    """Return the only date or month of a question, or [] if it asks for a period or for several."""
    told = [one for one in dates_in(question) if one[-1][0] != "clock"]
    dates = [one for one in told if one[-1][0] != "month"] or told  # a date also has a month
    return dates if len(dates) == 1 and not _PERIOD.search(question) else []


def with_order(cells: Sequence[str]) -> Sequence[str]:
    """Return a column with dates as day.month.year if a part above 12 decides their order."""
    found = [match for cell in cells for match in _SLASHED.finditer(cell)]
    day_first, month_first = (any(int(match[n]) > 12 for match in found) for n in (1, 2))
    if day_first == month_first:
        return cells
    return [_SLASHED.sub(r"\1.\2.\3" if day_first else r"\2.\1.\3", cell) for cell in cells]


def ways_to_write(value: FactValue) -> str:
    """Return a pattern in lower case of a date or month, in digits and with the month's names.

    A month is also found in its dates. The day is first, with "/" either, or as in ISO 8601.
    """
    kind, *numbers = value
    if kind not in ("date", "month"):
        return "(?!)"
    month, *others = map(int, numbers)
    day = rf"0?{others.pop(0)}" if kind == "date" else r"\d{1,2}"
    year = str(others[0]) if others else _YEAR
    short = rf"(?:{year[:2]})?{year[2:]}" if others else r"(?:\d\d)?\d\d"
    optional = "" if kind == "date" else "?"
    return (
        rf"(?<![\d.])(?:(?:{day}[./]){optional}0?{month}[./]{short}|0?{month}/{day}/{short}"
        rf"|{year}-{month:02}(?:-{day}){optional}"
        rf"|(?:{day}(?:st|nd|rd|th|\.)? ){optional}(?:{_NAMES[month - 1]})(?: {year})"
        rf"{'' if others else '?'})(?![\d-])"
    )


def _date(match: re.Match[str]) -> FactValue | None:
    if match["full"]:
        first, second = int(match["first"]), int(match["second"])
        year = int(match["full"]) + (2_000 if len(match["full"]) == 2 else 0)
        # A year of two digits counts only if nothing else is possible: 31/12/24.
        if len(match["full"]) == 2 and (match["mark"] != "/" or min(first, second) > 12):
            return None
        if not 1 <= min(first, second) <= 12 or not max(first, second) <= 31:
            return None
        if match["mark"] != "/" or first > 12:
            return ("date", second, first, year) if second <= 12 else None
        if second > 12 or first == second:
            return "date", first, second, year
        return "either date", first, second, year
    if match["iso"] or match["compact"]:
        digits = re.sub(r"\D", "", match["iso"] or match["compact"])
        return "date", int(digits[4:6]), int(digits[6:]), int(digits[:4])
    number = _NUMBER[(match["month"] or match["us_month"]).casefold()]
    date = ("date", number, int(match["day"] or match["us_day"]))
    return (*date, int(match["year"])) if match["year"] else date


def _minutes(match: re.Match[str]) -> int:
    if match["hour24"] is not None:
        return int(match["hour24"]) * 60 + int(match["minute24"])
    if match["hour"] is None:
        return 12 * 60 if match.group().casefold() == "noon" else 0
    hour = int(match["hour"]) % 12 + (12 if match["half"].casefold() == "p" else 0)
    return hour * 60 + int(match["minute"] or 0)
