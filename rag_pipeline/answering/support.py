"""Whether a passage supports a sentence, by its content words and its numbers."""

import re

from rag_pipeline.search.tokenization import default_tokenizer

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_AUXILIARY = re.compile(
    r"\b(?:shall|may|must|will|would|should|can(?=not)|can|could|do|does|did|is|are|was|were)"
    r"(?P<no>\s*n(?:o|['’])t\b|\s+never\b)?\s+(?:be\s+)?(?!not\b|be\b)(?P<verb>\w+)"
)


def supports(passage: str, sentence: str, share: float) -> bool:
    """Tell whether a passage holds at least `share` of a sentence's terms, and all its numbers.

    A statement with "not" does not support the statement without it: "shall not disclose" does not
    support "shall disclose". Terms are stems without stop words. Any passage supports a sentence
    without terms.
    """
    terms = set(default_tokenizer().tokenize(sentence))
    if not _numbers(sentence) <= _numbers(passage):
        return False
    said, held_to = _polarities(sentence), _polarities(passage)
    if any(not signs & held_to[verb] for verb, signs in said.items() if verb in held_to):
        return False
    held = terms & set(default_tokenizer().tokenize(passage))
    return not terms or len(held) >= share * len(terms)


def _polarities(text: str) -> dict[str, set[bool]]:
    """Return the verbs after an auxiliary, each with its negations: True, False or both."""
    found: dict[str, set[bool]] = {}
    for match in _AUXILIARY.finditer(text.casefold()):
        found.setdefault(match["verb"], set()).add(bool(match["no"]))
    return found


def _numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in _NUMBER.findall(text)}
