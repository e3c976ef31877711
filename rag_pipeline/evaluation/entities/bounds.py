"""The words around a quantity -> whether it is the least, the most, or neither."""

import re

from rag_pipeline.evaluation.entities.values import Quantity


def bound_of(text: str, quantity: Quantity) -> str:
    """Return "least", "most", or "" by the words around a quantity: "at least 30 days"."""
    before, after = text[: quantity.start], text[quantity.end :]
    inside = text[quantity.start : quantity.end]
    is_date = quantity.value[0] in ("date", "either date", "month", "clock")
    for bound, (ahead, behind, of_dates) in _BOUNDS.items():
        if ahead.search(before) or behind.match(after) or behind.search(inside):
            return bound
        if is_date and of_dates.search(before):
            return bound
    return ""


def _ahead(*patterns: str) -> re.Pattern[str]:
    filler = r"(?:an? |the |(?:period|sum|amount|total|term)s? of |de |von |d[’'])*"
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
            r"\b(?:under|below|within)",
            r"\b(?:capped|limited) (?:at|to)",
            r"\bhöchstens|\bmaximal|\bspätestens(?: \w+)?|\binnerhalb(?: von)?|\bbinnen|\bbis zu",
            r"\bau (?:plus|maximum)|\bun maximum|\bdans un délai",
            r"\bcomo máximo|\ba más tardar|\bun máximo|\ben un plazo(?: máximo)?",
        ),
        re.compile(
            r"\s*\bor (?:less|fewer|under|earlier)\b"
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
            r"\b(?:over|above)",
            r"\bmindestens|\bwenigstens|\bfrühestens|\bmehr als",
            r"\bau (?:moins|minimum)|\bun minimum|\bplus",
            r"\b(?:al menos|como mínimo|por lo menos|un mínimo|más)",
        ),
        re.compile(
            r"\s*\bor (?:more|longer|over|later)\b|\s+(?:at (?:the )?(?:least|earliest)|minimum)\b"
            r"|\s+(?:au (?:moins|minimum)|como mínimo|mindestens)",
            re.IGNORECASE,
        ),
        re.compile(r"(?:\bafter|\bnot before|\bfrom|\bab dem|\bnach dem)\s+(?:the )?$", re.I),
    ),
}
