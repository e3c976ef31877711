"""A yes/no question and the sentence that answers it -> "Yes" or "No", where rules are certain.

English, and questions of what one may or must do alone: "May the tenant sublet?"
"""

import re

from rag_pipeline.search.tokenization import default_tokenizer

_ASKS = re.compile(r"(?:.*[,;:.]\s+)?(may|can|could|must|shall)\s+\w", re.IGNORECASE)
_MODAL = re.compile(
    r"\b(?P<modal>may|can|must|shall|(?:is|are)\s+(?:entitled|permitted|allowed)\s+to|"
    r"(?:is|are)\s+(?:required|obliged)\s+to)"
    r"(?P<no>\s*not\b|not\b|\s+in\s+no\s+event\b)?\s+(?:also\s+|only\s+)?(?P<verb>[a-z]+)",
    re.IGNORECASE,
)
_NOBODY = re.compile(r"\b(?:neither|no\s+(?:party|person|one|employee|tenant)|nobody)\b", re.I)
_DEPENDS = re.compile(
    r"\b(?:unless|except|only|provided|subject\s+to|other\s+than|without|if|until|save|but|"
    r"however|where|when|with\s+(?:\S+\s+){0,3}consent)\b",
    re.IGNORECASE,
)
_LEAST = 0.6
"""Least share of the question's terms that the sentence must hold."""


def verdict(question: str, sentence: str) -> str | None:
    """Return "Yes" or "No"; None where the sentence makes it depend on something, or is unclear.

    The sentence must say with one modal verb, negated or not, whether what the question asks about
    is allowed or required, and hold most of its terms.
    """
    asks = _ASKS.match(question)
    if asks is None or _DEPENDS.search(sentence) or _NOBODY.search(sentence):
        return None
    tokenize = default_tokenizer().tokenize
    asked = set(tokenize(question))
    if len(asked & set(tokenize(sentence))) < _LEAST * len(asked):
        return None
    said = {
        (_is_duty(match["modal"]), bool(match["no"]))
        for match in _MODAL.finditer(sentence)
        if asked & set(tokenize(match["verb"]))
    }
    if len(said) != 1:
        return None
    ((is_duty, negated),) = said
    if negated:
        return "No"
    # What is required is allowed; what is allowed need not be required.
    return "Yes" if is_duty or asks[1].lower() not in ("must", "shall") else None


def _is_duty(modal: str) -> bool:
    return bool(re.search(r"must|shall|required|obliged", modal, re.IGNORECASE))
