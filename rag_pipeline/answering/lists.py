"""Find the lists, steps and sections of a document that a question asks for, complete."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.imports import compiled
from rag_pipeline.loading.text import heading_paths

_LONGEST = 200_000
"""Maximum number of characters of a document whose lists are read."""
_MOST_CHARACTERS = 6_000
"""Maximum number of characters of a list in an answer."""
_NUMBERED = re.compile(r"[ \t]*(?:\(?\d{1,3}[.)]+|[Ss]tep \d+[.:]?|[Ss]chritt \d+[.:]?)[ \t]+\S")
_ITEM = re.compile(r"[ \t]*(?:[-*+•◦▪‣·–—][ \t]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]+[ \t])")
_STEPS = (
    r"\bhow (?:do|can|should|must|would) (?:i|we|you|one)\b|\bhow to\b|\bsteps?\b|\bprocedure\b|"
    r"\b(?:what|which) order\b|\border of\b|\binstructions?\b|"
    r"\bwhat do (?:i|we) (?:have to|need)\b|"
    r"\bwie (?:\w+ )?(?:ich|man|wir|wird|werden|geht|funktioniert)\b|schritt|\bablauf\b|"
    r"reihenfolge|anleitung|vorgeh|\bcomment\b|\bétapes\b|\bmarche à suivre\b|\bcómo\b|\bpasos\b|"
    r"步骤|怎么|如何|خطوات|كيف"
)
_SUMMARY = (
    r"\bsummar\w+|\boverview\b|\bwhat (?:is|was) (?:said|discussed|decided) about\b|"
    r"\bkey points\b|\bin (?:brief|short)\b|\bwhat is \S+(?: \S+)? about\b|\bzusammenfass\w*|"
    r"\bfass\w*\b.*\bzusammen\b|\büberblick\b|\bworum geht\b|\brésum\w+|\bresum\w+|\baperçu\b|"
    r"总结|概述|摘要|ملخص|لخص"
)


class Block(NamedTuple):
    """Holds a list of a document with its items, and the headings and line above it."""

    items: tuple[Span, ...]
    above: str
    numbered: bool

    @property
    def span(self) -> Span:
        """Return the span of the whole list."""
        return self.items[0][0], self.items[-1][1]


def asks_for_steps(question: str) -> bool:
    """Return whether a question asks how something is done."""
    return bool(compiled(_STEPS, re.IGNORECASE).search(question))


def asks_for_summary(question: str) -> bool:
    """Return whether a question asks for a summary."""
    return bool(compiled(_SUMMARY, re.IGNORECASE).search(question))


def subject(question: str) -> str:
    """Return a question without the words that ask for steps or a summary."""
    return compiled(f"{_STEPS}|{_SUMMARY}", re.IGNORECASE).sub(" ", question)


def lists_of(document: Document) -> tuple[Block, ...]:
    """Return the lists with at least two items of a document, in order."""
    return _lists(document.text) if len(document.text) <= _LONGEST else ()


@lru_cache(maxsize=64)
def _lists(text: str) -> tuple[Block, ...]:
    found: list[Block] = []
    paths = [(-1, ()), *heading_paths(text)]
    before = ""
    items: list[Span] = []
    numbered = blank = False
    at = 0
    for line in [*text.splitlines(keepends=True), "\n", "#"]:
        start, at = at, at + len(line)
        words = line.strip()
        end = start + len(line.rstrip())
        is_item = bool(_ITEM.match(line))
        is_restart = bool(items) and is_item and numbered and _first_number(line) == 1
        goes_on = items and words and not is_item and (not blank or line[0] in " \t")
        if items and goes_on and not words.startswith(("#", "|")):
            items[-1] = (items[-1][0], end)
        elif (
            words
            and items
            and (not is_item or is_restart or bool(_NUMBERED.match(line)) != numbered)
        ):
            if len(items) > 1:
                headings = paths[bisect_left(paths, items[0][0], key=itemgetter(0)) - 1][1]
                found.append(Block(tuple(items), "\n".join([*headings, before]), numbered))
            items = []
        if is_item:
            numbered = bool(_NUMBERED.match(line)) if not items else numbered
            items.append((start + len(line) - len(line.lstrip()), end))
        elif words and not items:
            before = words if words.endswith(":") else ""
        blank = not words
    return tuple(found)


def _first_number(line: str) -> int | None:
    digits = re.match(r"\s*\(?(\d+)", line)
    return int(digits[1]) if digits else None


def find_list(
    question: str, words: Words, documents: Sequence[Document], steps: bool
) -> tuple[float, Document, Block] | None:
    """Return the list that has the most words of a question, with their share.

    For `steps`, numbered lists come before other lists. Of equal lists, the list with more of the
    question's short words ("off") wins, and then the list of the earlier document.
    """
    asked = words_of(question)
    found = [
        (
            words.share(words.in_text(f"{document.title}\n{block.above}\n{whole}")),
            steps and block.numbered,
            len(asked & words_of(f"{block.above}\n{whole}")),
            -rank,
            document,
            block,
        )
        for rank, document in enumerate(documents)
        for block in lists_of(document)
        if (whole := document.text[slice(*block.span)]) and len(whole) <= _MOST_CHARACTERS
    ]
    if not found:
        return None
    best = max(found, key=lambda one: one[:4])
    return best[0], best[4], best[5]


def _sections(text: str) -> list[tuple[Sequence[str], Span]]:
    """Return the headings and the span of each section of a Markdown text."""
    marks = heading_paths(text)
    ends = [*(at for at, _ in marks), len(text)]
    sections: list[tuple[Sequence[str], Span]] = []
    if text[: ends[0]].strip():
        sections.append(((), (0, ends[0])))
    for (at, path), end in zip(marks, ends[1:], strict=True):
        line, _, rest = text[at:end].partition("\n")
        if rest.strip():
            sections.append((path, (at + len(line), end)))
    return sections


def summary_spans(words: Words, document: Document, most: int) -> list[Span]:
    """Return the leading sentence of each section, or all sentences of the section asked for.

    A section is asked for if its own heading has words of the question that the title lacks.
    """
    text = document.text[:_LONGEST]
    sections = _sections(text)
    title = words.in_text("\n".join([document.title, *(sections[0][0] if sections else ())]))
    own = [words.share(words.in_text(" ".join(h[-1:])) - title) for h, _ in sections]
    best = max(own, default=0.0)
    spans: list[Span] = []
    for (_, (first, last)), share in zip(sections, own, strict=True):
        if not best or share >= best:
            found = [
                (first + start, first + end) for start, end in sentence_spans(text[first:last])
            ]
            spans += found if best else found[:1]
    return spans[:most]
