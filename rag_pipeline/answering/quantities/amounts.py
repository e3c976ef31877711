"""Find sums of money and percentages in a text, such as ("USD", 10000) and ("percent", 50)."""

import re
from collections.abc import Iterator
from decimal import Decimal

from rag_pipeline.answering.quantities.numbers import (
    DIGITS,
    FOREIGN_WORDS,
    NUMBER,
    Found,
    read_number,
)
from rag_pipeline.imports import compiled

_SYMBOLS = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CODES = "USD EUR GBP CHF JPY CAD AUD NZD SEK NOK DKK INR CNY SGD HKD ZAR BRL PLN".split()
_CODE = "|".join(_CODES)
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
    "schweizer franken": "CHF",
    "yen": "JPY",
    "cent": "cent",
}
_NAMED = "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
_SCALES = {
    "k": 1_000, "thousand": 1_000, "tausend": 1_000,
    "m": 1_000_000, "mn": 1_000_000, "million": 1_000_000, "millions": 1_000_000,
    "millionen": 1_000_000, "millones": 1_000_000, "mio": 1_000_000,
    "bn": 1_000_000_000, "billion": 1_000_000_000, "milliarde": 1_000_000_000,
    "milliarden": 1_000_000_000, "milliards": 1_000_000_000, "mrd": 1_000_000_000,
    "hundred": 100,
}  # fmt: skip
_LONG_SCALE = "|".join(
    sorted((s for s in _SCALES if len(s) > 2 and s != "hundred"), key=len, reverse=True)
)
_SUM = rf"\d{{1,3}}(?:\ \d{{3}})+(?:[.,]\d{{1,2}})?(?!\d)|{DIGITS}"
_MONEY = (
    rf"(?i)(?:(?P<symbol>US\$|[$€£¥₹])\s*|\b(?P<code>{_CODE})\s*)"
    rf"(?P<number>{_SUM})(?:\s*(?P<scale>{_LONG_SCALE}|bn|[mk])\b)?"
    rf"|(?P<words>{NUMBER}|(?<![\w.,])\d{{1,3}}(?:\ \d{{3}})+(?:,\d{{1,2}})?)"
    rf"(?:\s*(?P<scale_after>{_LONG_SCALE}|bn)\.?(?:\s+d['’]|\s+de)?)?\s*"
    rf"(?:(?P<code_after>{_CODE})\b|(?P<symbol_after>[€£])|\b(?P<name>{_NAMED})s?\b)"
)
_EUROS = rf"(?i)\b(?P<words>{FOREIGN_WORDS})\s+euros?\b"
_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
"""A number in German notation. In dollars and pounds, the point is a decimal point."""
_PERCENT = (
    rf"(?i)(?P<number>{NUMBER})(?P<half>\s+and\s+(?:a|one)[\s-]half)?\s*"
    r"(?:(?P<points>basis\s+points?|bps)\b|%|(?:percent|per\s+cent|pct|Prozent|v\.\s?H|pour\s+cent|"
    rf"por\s+ciento)\b)(?:\s*\(\s*(?:{DIGITS})\s*%\s*\))?"
    r"|\b(?P<fraction>half|one[\s-]third|two[\s-]thirds|three[\s-]quarters|one[\s-]quarter|"
    r"(?<!once )(?<!twice )(?<!times )a quarter(?=\s+of\b|$))\b"
)
_FRACTIONS = {
    "half": Decimal(50),
    "one third": Decimal(100) / 3,
    "two thirds": Decimal(200) / 3,
    "three quarters": Decimal(75),
    "one quarter": Decimal(25),
    "a quarter": Decimal(25),
}


def amounts_in(text: str) -> Iterator[Found]:
    """Yield the sums of money of a text."""
    for match in compiled(_MONEY).finditer(text):
        written = match["number"] or match["words"]
        scale = (match["scale"] or match["scale_after"] or "").casefold()
        code = match["code"] or match["code_after"]
        symbol = match["symbol"] or match["symbol_after"]
        if code:
            currency = code.upper()
        elif symbol:
            currency = _SYMBOLS[symbol.upper()]
        else:
            currency = _NAMES[re.sub(r"\s+", " ", match["name"].casefold())]
        bare = (
            written.replace(" ", "") if written[0].isdecimal() and "(" not in written else written
        )
        if not scale and currency not in ("USD", "GBP") and _THOUSANDS.fullmatch(bare):
            bare = bare.replace(".", "")
        amount = read_number(bare)
        if amount is not None:
            yield *match.span(), (currency, (amount * _SCALES.get(scale, 1)).normalize())
    if "euro" in text.casefold():
        for match in compiled(_EUROS).finditer(text):
            number = read_number(match["words"])
            if number is not None:
                yield *match.span(), ("EUR", number.normalize())


def percentages_in(text: str) -> Iterator[Found]:
    """Yield the percentages of a text, including halves, thirds and quarters."""
    for match in compiled(_PERCENT).finditer(text):
        fraction = match["fraction"]
        if fraction:
            amount: Decimal | None = _FRACTIONS[re.sub(r"[\s-]+", " ", fraction.casefold())]
        else:
            amount = read_number(match["number"] + (match["half"] or ""))
        if amount is not None:
            value = amount / 100 if match["points"] else amount
            yield *match.span(), ("percent", value.normalize())
