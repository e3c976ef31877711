"""Cut the excerpt that best fits a question out of a long passage."""

import re
from collections import Counter
from typing import NamedTuple

from rag_pipeline.chunking.sentences import sentence_ends
from rag_pipeline.config import Lexical
from rag_pipeline.search.tokenization import tokenizer_of

_BLOCK = re.compile(r"\n(?=[ \t]*(?:\n|#{1,6} |\||[-*•] ))")
"""Matches a line end before an empty line, a heading, a table row or a list item."""
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.M)
_RULE = re.compile(r"[-=_*|:\s]*")
_WORD = re.compile(r"\S+")
_STRONG = re.compile(r"(?<!\w)\*\*(?=\S)|(?<=\S)\*\*(?!\w)")
_EMPHASIS = re.compile(r"(?<![\w*])\*([^\s*][^*\n]*)(?<!\s)\*(?![\w*])")
_ROW = re.compile(r"“\|(.*?)\|”")
"""Matches a quoted row of a table."""
_MARK = re.compile(r"“(?:[*+-]|#{1,6}) +(?=[^”\n]*”)")
"""Matches the start of a quoted heading or list item of one line."""
_LINK = re.compile(r"!?\[([^\]\n]+)\]\([^)\s]+\)")


def without_emphasis(text: str) -> str:
    """Return a text without the marks of Markdown's emphasis and links."""
    return _EMPHASIS.sub(r"\1", _STRONG.sub("", _LINK.sub(r"\1", text)))


def readable(answer: str) -> str:
    """Return an answer's text without the marks of Markdown within its quotes."""
    return without_emphasis(_MARK.sub("“", _ROW.sub(_cells, answer)))


def _cells(row: re.Match[str]) -> str:
    cells = (cell.strip() for cell in re.split(r"(?<!\\)\|", row[1]))
    return f"“{' · '.join(filter(None, cells))}”"


class Excerpt(NamedTuple):
    """A part of a text on one line, and the span of its letters and digits in the text."""

    text: str
    start: int
    end: int


def excerpt(text: str, query: str, length: int) -> Excerpt:
    """Return the excerpt of at most `length` characters that best fits the query.

    An excerpt begins with a sentence, or within a sentence that is longer than the excerpt. The
    best excerpt has the highest sum of weights of its query words. A word in n sentences of the
    text has the weight 1/n. If the text has no query word, the excerpt is its beginning.

    The excerpt is one line without marks of Markdown. An ellipsis replaces omitted text.
    """
    flat, starts = _sentences(text)
    if len(flat) <= length:
        return Excerpt(flat, 0, len(text))
    # The stemmers of all languages stem single words, in the text as in the query.
    tokenize = tokenizer_of(Lexical(language="auto")).tokenize
    wanted = {term for word in query.split() for term in tokenize(word)}
    found = [
        (match.start(), terms)
        for match in _WORD.finditer(flat)
        if (terms := wanted.intersection(tokenize(match[0])))
    ]
    ends = [*starts[1:], len(flat)]
    holding: Counter[str] = Counter()
    inside = []
    for start, end in zip(starts, ends, strict=True):
        own = [(at, terms) for at, terms in found if start <= at < end]
        holding.update(set().union(*(terms for _, terms in own)))
        inside += [flat.rfind(" ", 0, at - length // 3) + 1 for at, _ in own if at > start + length]

    def weight(start: int) -> float:
        held = (terms for at, terms in found if start <= at < start + length - 2)
        return sum(1 / holding[term] for term in set().union(*held))

    best = max(starts + inside, key=lambda start: (weight(start), start in starts, start))
    if not found:
        best = 0
    # Near the text's end, earlier sentences fill the excerpt.
    fitting = sorted({*starts, best})
    best = next(start for start in fitting if start >= min(best, len(flat) - length + 1))
    head = "…" if best else ""
    shown = flat[best : best + length - len(head)]
    if best + len(shown) < len(flat):
        shown = f"{shown[:-1].rstrip()}…"
    # Marks and addresses of links aside, both texts have the same letters and digits.
    hidden = {n for m in _LINK.finditer(text) for n in range(m.end(1), m.end())}
    kept = [n for n, letter in enumerate(text) if letter.isalnum() and n not in hidden]
    before, within = (sum(map(str.isalnum, part)) for part in (flat[:best], shown))
    span = kept[before : before + within] or [0, len(text) - 1]
    return Excerpt(head + shown, span[0], span[-1] + 1)


def _sentences(text: str) -> tuple[str, list[int]]:
    """Return the text on one line without marks of Markdown, and the start of each sentence."""
    flat, starts, is_heading, is_row = "", [0], False, False
    for line in _BLOCK.split(_HEADING.sub(r"\g<0>\n", without_emphasis(text))):
        if _RULE.fullmatch(line):
            continue
        block = " ".join(line.split())
        follows_row, is_row = is_row, block.startswith("|")
        if is_row:
            block = " · ".join(cell for one in block.split("|") if (cell := one.strip()))
        joint = ": " if is_heading and flat[-1].isalnum() else " " if flat else ""
        joint = "; " if follows_row and is_row else joint
        is_heading = _HEADING.match(block) is not None
        flat += joint
        starts.append(len(flat))
        flat += _HEADING.sub(r"\1", block)
        starts += sentence_ends(flat, starts[-1], len(flat))
    return flat, sorted(set(starts))
