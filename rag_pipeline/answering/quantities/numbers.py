"""Read numbers in digits and words, in English, German, French and Spanish notation."""

import re
from decimal import Decimal

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SMALL = {word: n for n, word in enumerate(_ONES)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_LARGE = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join(sorted([*_SMALL, *_LARGE], key=len, reverse=True))
WORDS = rf"(?>(?:{_WORD})(?:(?:\s{{1,3}}and\s{{1,3}}|[\s-]{{1,3}})(?={_WORD})|\b)){{1,12}}+"
DIGITS = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d{1,2}"
    r"|\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:['’\u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?"
    r"|\d+,\d{1,2}(?![\d,])|\d+(?:\.\d+)?"
)
"""10,000.50 and 1,00,000; 10.000,50 and 10.000.000; 10'000 and 10 000; 2,5; 2.5."""
NUMBER = (
    rf"(?:\b{WORDS}\s*\(\s*(?:{DIGITS})\s*%?\s*\)"
    rf"|(?<![\w.,])(?:{DIGITS})(?:\s*\(\s*{WORDS}\s*\))?|\b{WORDS})"
)
"""Digits, words, or both with one of them in parentheses. Of both, the digits count."""

_FOREIGN = {
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt",
    "es": "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte",
}
_FOREIGN_TENS = {
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante soixante-dix quatre-vingts quatre-vingt-dix",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
}
_FOREIGN_MORE = {
    "eine": 1, "einen": 1, "einem": 1, "einer": 1, "eines": 1, "une": 1, "una": 1, "uno": 1,
    "hundert": 100, "einhundert": 100, "tausend": 1_000, "eintausend": 1_000,
    "cent": 100, "cents": 100, "deux cents": 200, "cinq cents": 500, "mille": 1_000,
    "cien": 100, "doscientos": 200, "trescientos": 300, "quinientos": 500, "mil": 1_000,
}  # fmt: skip


def _foreign() -> dict[str, int]:
    found = dict(_FOREIGN_MORE)
    for language, joined in (
        ("de", "{one}und{ten}"),
        ("fr", "{ten}-{one}"),
        ("es", "{ten} y {one}"),
    ):
        ones = _FOREIGN[language].split()
        found.update({word: n for n, word in enumerate(ones)})
        for ten, word in enumerate(_FOREIGN_TENS[language].split(), 2):
            found[word] = 10 * ten
            found.update({joined.format(one=ones[n], ten=word): 10 * ten + n for n in range(1, 10)})
    return found


_FOREIGN_NUMBERS = _foreign()
_FOLDED = {word.casefold(): number for word, number in _FOREIGN_NUMBERS.items()}
FOREIGN_WORDS = "|".join(sorted(map(re.escape, _FOREIGN_NUMBERS), key=len, reverse=True))
_HALF = re.compile(r"\s+and\s+(?:a|one)[\s-]half$", re.IGNORECASE)


FactValue = tuple[str | Decimal | int, ...]
Found = tuple[int, int, FactValue]
"""Start, end and value: ("USD", 10000), ("months", 60), ("working day", 10), ("nth year", 2)."""


def read_number(text: str) -> Decimal | None:
    """Return the number that digits, words or both spell, or None if they spell no number."""
    half = _HALF.search(text)
    if half:
        whole = read_number(text[: half.start()])
        return None if whole is None else whole + Decimal("0.5")
    digits = re.search(DIGITS, text)
    if digits:
        return _of_digits(digits.group())
    folded = " ".join(text.casefold().split())
    if folded in _FOLDED:
        return Decimal(_FOLDED[folded])
    total = group = 0
    words = [word for word in re.split(r"[\s-]+", folded) if word != "and"]
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


def _of_digits(text: str) -> Decimal:
    bare = re.sub(r"['’\u00a0\u202f]", "", text)
    comma, point = bare.rfind(","), bare.rfind(".")
    if point < comma and (point >= 0 or len(bare) - comma <= 3):
        bare = bare.replace(".", "").replace(",", ".")  # 1.234,50 and 3,20
    elif bare.count(".") > 1:
        bare = bare.replace(".", "")
    return Decimal(bare.replace(",", ""))
