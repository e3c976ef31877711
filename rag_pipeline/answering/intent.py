"""Question -> what kind of answer it wants, in which domain, about what; by rules."""

import re
from dataclasses import dataclass
from typing import get_args

from rag_pipeline.datamodels import Kind as Kind

KINDS: tuple[str, ...] = get_args(Kind)

_COMPARISON = re.compile(
    r"\b(?:compar\w+|contrast\w*|differ\w*|versus|vs\.?|in common|unlike|"
    # Not a bound: "no later than", "more than ten days".
    r"(?<!no )(?<!not )"
    r"(?:longer|shorter|higher|lower|more|less|fewer|stricter|later|earlier|larger|smaller)\s+"
    r"(?:\w+\s+){0,4}than(?!\s+(?:[\d$€£]|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety|half)\b))|"
    r"which\s+(?:of\s+(?:the\s+)?(?:two|three|\w+s)|(?:\w+\s+){1,3}(?:is|has|have|gives?|allows?))"
    r"[^?]{0,80}\b(?:longest|shortest|highest|lowest|most|least|strictest|largest|smallest)|"
    r"across\s+(?:all\s+|the\s+|these\s+)?\w+s)\b",
    re.IGNORECASE,
)
_COMPREHENSIVE = re.compile(
    r"\b(?:(?:list|name|enumerate|give|show|find)\s+(?:me\s+)?"
    r"(?:all|every|each|the\s+(?:\w+\s+){0,2}\w+(?<!s)s)\b|list\s+the\b|"
    r"(?:all|every)\s+(?:of\s+)?(?:the\s+)?(?:\w+\s+){0,3}(?:that|which|where|with|who)|"
    r"(?:which|what)\s+(?:agreements|contracts|documents|policies|files|companies|parties)|"
    r"complete\s+list|overview\s+of)\b",
    re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"\b(?:defin\w+|meaning\s+of|(?:what|how)\s+(?:does|do|is|are)\s+[^?]{1,80}?\s*"
    r"(?:mean|meant|refer\s+to|understood)|what\s+(?:counts|qualifies)\s+as|"
    r"stands?\s+for|glossary)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\b(?:clauses?|sections?|articles?|provisions?|paragraphs?|wording|verbatim|exact(?:ly)?|"
    r"agreements?|contracts?|obligations?|obliged|entitled|permitted|allowed|prohibited|"
    r"required|may|must|shall|can|governing\s+law|terminat\w+|notice|liab\w+|warrant\w+|"
    r"confidential\w*|how\s+(?:long|much|many|often|soon|far)|when|who|where)\b",
    re.IGNORECASE,
)
_DOMAINS = {
    "legal": r"agreement|contract|clause|party|parties|nda|non-disclosure|confidential|liab|"
    r"governing law|jurisdiction|terminat|breach|indemn|warrant|licen[cs]e|obligation",
    "human resources": r"employee|leave|vacation|holiday|sick|parental|salary|pension|hiring|"
    r"probation|overtime|payroll",
    "finance": r"invoice|payment|revenue|tax|interest|dividend|budget|audit|loan|currency|price",
    "health": r"patient|medical|clinical|disease|drug|dose|treatment|hospital|diagnos|symptom",
    "technology": r"software|server|code|function|class|api|database|network|algorithm|"
    r"compile|encrypt|bug|deploy",
    "science": r"experiment|hypothesis|molecul|protein|particle|species|theorem|equation",
}
_DOMAIN_PATTERNS = {
    name: re.compile(rf"\b(?:{words})\w*", re.IGNORECASE) for name, words in _DOMAINS.items()
}
_ENTITY = re.compile(
    r"[“\"'](?P<quoted>[^“”\"']{2,80})[”\"']"
    r"|(?P<name>\b(?:[A-Z][\w&.-]*|[A-Z]{2,})(?:\s+(?:of|and|the|for|&)?\s*[A-Z][\w&.-]*)*)"
    r"|(?P<number>[$€£]\s?\d[\d,.]*|\b\d[\d,.]*\s?(?:%|percent|days?|weeks?|months?|years?|hours?))"
)
_OPENERS = frozenset(
    "a an are can could did do does for from give has have how i if in is it list may must name "
    "on please shall should show tell that the there these this those to under was were what "
    "when where which who whom whose why will with would".split()
)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a question wants."""

    kind: Kind
    domain: str
    entities: tuple[str, ...]


def detect(question: str) -> Intent:
    """Read a question's intent from its words.

    Comparison goes before listing, listing before definition, and those before the lookup of one
    clause, since each of them is also asked in the words of the next.
    """
    kind: Kind = "general"
    for pattern, found in (
        (_COMPARISON, "comparison"),
        (_COMPREHENSIVE, "comprehensive"),
        (_DEFINITION, "definition"),
        (_CLAUSE, "clause_lookup"),
    ):
        if pattern.search(question):
            kind = found  # type: ignore[assignment]
            break
    return Intent(kind, _domain(question), key_entities(question))


def key_entities(question: str) -> tuple[str, ...]:
    """Return quoted phrases, names and amounts, in their order, each once."""
    found: dict[str, None] = {}
    for match in _ENTITY.finditer(question):
        text = " ".join(match[0].strip("“”\"'").split())
        if match["name"]:
            words = text.split()
            while words and words[0].lower() in _OPENERS:
                words.pop(0)
            text = " ".join(words).rstrip(".")
        if len(text) > 1:
            found.setdefault(text)
    return tuple(found)


def _domain(question: str) -> str:
    counts = {name: len(p.findall(question)) for name, p in _DOMAIN_PATTERNS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else "general"
