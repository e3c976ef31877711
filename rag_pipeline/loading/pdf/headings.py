"""Find the title of a PDF, and set the levels of its headings by their numbers and style."""

import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

from rag_pipeline.loading.pdf.paragraphs import NAMED, NUMBERED, Block, Styles

_FILE_NAME = re.compile(
    r"\.(docx?|pdf|tex|dvi|ps|indd|qxp|qxd|pptx?|xlsx?|odt|rtf|txt|html?|md|p65|fm)\s*$", re.I
)
_PLACEHOLDER = re.compile(
    r"(?i)(true|false|none|null|nil|title|titel|titre|no title|paper|article|document\s*\d*|"
    r"untitled.*|unbenannt.*|sans titre.*|\(?anonymous\)?|\(?unspecified\)?|slide \d+|"
    r"powerpoint.*|word document|presentation\d*|book\d+|sheet\d+|layout \d+|main|draft|"
    r"full page fax print|scan.*\d+|img[_ -]?\d+|print|blank|template|test|temp|"
    r"https?://\S+|about:blank|[\d\W]*)"
)
_OF_A_PROGRAM = re.compile(
    r"(Microsoft (Office )?(Word|PowerPoint|Excel)( - |$)|TeX output )", re.I
)
_MIN_LETTERS = 4
_MAX_TITLE = 300
_TITLE_SCALE = 1.15
_SPACED = re.compile(r"(?<!\S)(?:[^\W\d_] ){3,}[^\W\d_](?!\S)")
"""At least four single letters in a row. Capitals alone may be names: `Vitamins A B C D`."""


def set_levels(blocks: Sequence[Block], title: Block | None) -> None:
    """Set each heading's level by its number, or else by its style."""
    headings = [block for block in blocks if block.kind == "heading" and block is not title]
    depths: defaultdict[tuple[float, bool, bool], list[int]] = defaultdict(list)
    for block in headings:
        if depth := _depth(block):
            depths[_look(block)].append(depth)
    sizes = sorted({_look(block)[0] for block in headings}, reverse=True)
    known = {look: statistics.mode(found) for look, found in depths.items()}
    for block in headings:
        look = _look(block)
        rank = known.get(look) or min(1 + sum(size > look[0] + 0.6 for size in sizes), 3)
        if NAMED.fullmatch(block.lines[0].text):
            rank = known.get(look, 1)
        block.level = min((_depth(block) or rank) + 1, 6)
    if title is not None:
        title.level = 1


def demote_front_matter(blocks: Sequence[Block], title: Block | None) -> None:
    """Turn large lines between the title and the first section, such as authors, into text."""
    if title is None:
        return
    start = next(index for index, block in enumerate(blocks) if block is title) + 1
    for end in range(start, min(start + 40, len(blocks))):
        block = blocks[end]
        if block.kind == "heading" and (_depth(block) or NAMED.fullmatch(block.lines[0].text)):
            if block.lines[0].page <= title.lines[0].page + 1:
                for between in blocks[start:end]:
                    if between.kind == "heading":
                        between.kind = "text"
            return


def _look(block: Block) -> tuple[float, bool, bool]:
    line = block.lines[0]
    return round(line.size * 2) / 2, line.bold, line.text.isupper()


def _depth(block: Block) -> int:
    """Return the depth of a heading's number: 1 for `2 Method`, 2 for `2.1 Data`, 0 without one."""
    numbered = NUMBERED.match(block.lines[0].text)
    if numbered is None:
        return 0
    if decimal := numbered[2] or (numbered[5] if "." in (numbered[5] or "").rstrip(".") else ""):
        return len(decimal.rstrip(".").split("."))
    if numbered[5] and numbered[5].endswith("."):
        return 2 if not block.lines[0].bold else 1
    return 1


def declared_title(title: str) -> str:
    """Return the title from a PDF's metadata, or "" if it is a file name or a placeholder."""
    title = " ".join(title.replace("\x00", "").split())
    letters = sum(c.isalpha() for c in title)
    if (
        not letters >= 2
        or len(title) > _MAX_TITLE
        or _OF_A_PROGRAM.match(title)
        or _FILE_NAME.search(title)
        or _PLACEHOLDER.fullmatch(title)
        or "\ufffd" in title
    ):
        return ""
    one_word = " " not in title
    coded = re.search(r"[_\d/\\]", title) or title.count("-") > 1
    return "" if one_word and coded and title.isascii() else title


def title_block(blocks: Sequence[Block], styles: Styles) -> Block | None:
    """Return the heading of the first page that is probably the title, or None.

    Prefer the largest heading. If it is a single word, prefer a heading of at least three words.
    """
    first = [
        block for block in blocks
        if block.lines[0].page == 0 and block.kind in ("heading", "text")
        and sum(map(str.isalpha, block.text)) >= _MIN_LETTERS
    ]  # fmt: skip
    large = [
        b for b in first if b.lines[0].size >= _TITLE_SCALE * styles.body and b.kind == "heading"
    ]
    if not large:
        top = [b for b in first[:2] if b.kind == "heading"]
        return top[0] if top else None
    best = max(large, key=lambda b: b.lines[0].size)
    if len(best.text.split()) == 1:
        longer = [b for b in large if len(b.text.split()) >= 3]
        best = max(longer, key=lambda b: b.lines[0].size, default=best)
    return best


def without_marks(title: str) -> str:
    """Return a title without footnote marks at its end and without spaces between its letters."""
    title = title.rstrip("∗*†‡§ ").strip()
    return _SPACED.sub(
        lambda s: s[0] if title != s[0] and s[0].isupper() else s[0].replace(" ", ""), title
    )
