"""Cut an excerpt out of a long passage, to show the excerpt with a question."""

from collections import Counter

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.search.tokenization import default_tokenizer


def excerpt(text: str, query: str, length: int) -> str:
    """Return the excerpt of at most `length` characters that best fits the query.

    An excerpt begins with a sentence. The best excerpt has the highest sum of the weights of its
    query words. A word that occurs in n sentences of the text has the weight 1/n. If the text has
    no query word, the excerpt is the beginning of the text. Runs of white space become one space,
    and an ellipsis replaces omitted text.
    """
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    starts = [0, *sentence_ends(flat, 0, len(flat))]
    tokenize = default_tokenizer().tokenize
    wanted = set(tokenize(query))
    held = [
        wanted.intersection(tokenize(flat[start:end]))
        for start, end in zip(starts, [*starts[1:], len(flat)], strict=True)
    ]
    holding = Counter(term for terms in held for term in terms)

    def weight(start: int) -> float:
        within = wanted.intersection(tokenize(flat[start : start + length - 2]))
        return sum(1 / max(1, holding[term]) for term in within)

    best = max(starts, key=lambda start: (weight(start), start)) if holding else 0
    # Near the text's end, earlier sentences fill the excerpt.
    best = next(start for start in starts if start >= min(best, len(flat) - length + 1))
    head = "…" if best else ""
    shown = flat[best : best + length - len(head)]
    if best + len(shown) < len(flat):
        shown = f"{shown[:-1].rstrip()}…"
    return head + shown
