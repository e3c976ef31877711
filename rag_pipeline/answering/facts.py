"""Which kind of fact a question asks for, and whether a sentence states one: English patterns."""

import re

_NUMBER = (
    r"(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|"
    r"thirty|forty|fifty|sixty|ninety|hundred)\b)"
)
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
)
_SHARE = r"%|\bper\s?cent\b|\b(?:half|third|quarter)\b"
_ASKED = {
    "duration": (
        r"\bhow (?:long|soon|quickly|fast|early|late|often|much (?:notice|warning|longer|time))\b|"
        r"\bhow many (?:[\w-]+\s){0,2}?(?:second|minute|hour|day|week|month|year)s\b|"
        r"\b(?:notice periods?|deadline|by when|duration)\b|\bwhat (?:is|are) the terms?\b"
    ),
    "date": r"\b(?:what|which) (?:date|day)\b|^when (?:was|did)\b",
    "amount": (
        r"\bhow much (?:is|are|does|do|did|must|can|will|money|of the (?:rent|fee|price))\b|"
        r"\b(?:what|which) (?:[\w’'-]+\s){0,4}?(?:rent|fees?|price|cost|sum|amount|deposit|salary|"
        r"charge|cap|bonus|allowance)\b"
    ),
    "share": r"\b(?:what|which|how many) (?:[\w-]+\s){0,2}?(?:percent|percentage|share|rate)\b",
    "law": (
        r"\b(?:which|what|whose) (?:[\w-]+\s){0,2}?(?:laws?|courts?|jurisdiction)\b|"
        r"\bgoverning laws?\b"
    ),
}
_STATED = {
    "duration": (
        rf"{_NUMBER}[^.;]{{0,25}}?\b(?:second|minute|hour|day|week|month|year)s?\b|"
        r"\b(?:indefinite|perpetu|forever|without limit in time|promptly|immediately|anniversary)"
    ),
    "date": rf"\b{_MONTH}\s+\d|\d\s+(?:of\s+)?{_MONTH}|\b(?:19|20)\d\d\b",
    "amount": (
        r"[$€£¥]\s?\d|\b(?:USD|EUR|GBP|CHF|dollars?|euros?|pounds?)\b|\bmonths?['’]? .*rent|"
        + _SHARE
    ),
    "share": _SHARE,
    "law": (
        r"\blaws?\s+of\b|\b(?:English|German|Irish|Austrian|French|Swiss)\s+law\b|"
        r"\b(?:courts?|jurisdiction|governed by)\b|\b(?:arbitrat|mediat)"
    ),
}
_ASKS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _ASKED.items()}
_STATES = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _STATED.items()}


def kinds_asked(question: str) -> list[str]:
    """Return the kinds of fact that may answer a question: duration, date, amount, share, law."""
    return [kind for kind, pattern in _ASKS.items() if pattern.search(question)]


def states(sentence: str, kinds: list[str]) -> bool:
    """Tell whether a sentence states a fact of one of the kinds; True where none is asked for."""
    return not kinds or any(_STATES[kind].search(sentence) for kind in kinds)
