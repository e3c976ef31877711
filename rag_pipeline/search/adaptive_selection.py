"""Query -> how many chunks it needs; ranking -> as many of its relevant chunks.

After "Adaptive Context Selection" in Mastra's article on context-aware evaluation (2025), which
takes 3, 5 or 7 contexts whose relevance exceeds 0.5.
"""

import re
from collections.abc import Sequence

from rag_pipeline.config import AdaptiveSelection

_SIMPLE = 0.3
_COMPLEX = 0.7
_QUESTION_WORD = re.compile(r"\b(?:what|how|why|when|where|which)\b", re.IGNORECASE)
_TECHNICAL_TERM = re.compile(r"\b[A-Z][A-Za-z]*[A-Z][A-Za-z]*\b")


def query_complexity(query: str) -> float:
    """Return how much a query asks for, 0..1.

    The sum, at most 1, of: characters / 100, at most 1; 0.2 for each question word; 0.1 for each
    word with two capitals; 0.3 for each question mark after the first. The published formula
    counts the first one too, and so takes every question for several.
    """
    questions = query.count("?")
    return min(
        min(len(query) / 100, 1.0)
        + 0.2 * len(_QUESTION_WORD.findall(query))
        + 0.1 * len(_TECHNICAL_TERM.findall(query))
        + 0.3 * max(questions - 1, 0),
        1.0,
    )


def select(
    query: str, ranking: Sequence[tuple[int, float]], settings: AdaptiveSelection
) -> list[tuple[int, float]]:
    """Return the first of a ranking, best first: as many as the query needs, above the floor.

    Scores of retrievers are on different scales, so that they are scaled to 0..1 between the
    ranking's lowest and highest first. The best chunk is always kept; where all scores are equal
    they count as 1.
    """
    if not ranking:
        return []
    complexity = query_complexity(query)
    few, some, many = settings.contexts
    count = few if complexity < _SIMPLE else some if complexity < _COMPLEX else many
    scores = [score for _, score in ranking]
    low, high = min(scores), max(scores)
    spread = high - low
    relevant = [p for p in ranking if not spread or (p[1] - low) / spread > settings.floor]
    return relevant[:count]
