"""Find the title of a PDF: a plausible title in its metadata, else the largest text."""

import re
from collections.abc import Sequence

from rag_pipeline.loading.pdf.paragraphs import Block, Styles

_FILE_NAME = re.compile(
    r"\.(docx?|pdf|tex|dvi|ps|indd|qxp|qxd|pptx?|xlsx?|odt|rtf|txt|html?|md|p65|fm)\s*$", re.I
)
_PLACEHOLDER = re.compile(
    r"(true|false|none|null|nil|title|titel|titre|no title|paper|article|document\s*\d*|"
    r"untitled.*|unbenannt.*|sans titre.*|\(?anonymous\)?|\(?unspecified\)?|slide \d+|"
    r"powerpoint.*|word document|presentation\d*|book\d+|sheet\d+|layout \d+|main|draft|"
    r"full page fax print|scan.*\d+|img[_ -]?\d+|print|blank|template|test|temp|"
    r"https?://\S+|about:blank|[\d\W]*)",
    re.I,
)
_OF_A_PROGRAM = re.compile(
    r"(Microsoft (Office )?(Word|PowerPoint|Excel)( - |$)|TeX output )", re.I
)
_MIN_LETTERS = 4
_LONGEST = 300
_BIGGER = 1.15


def declared_title(title: str) -> str:
    """Return the title from the metadata; "" for file names and placeholders."""
    title = " ".join(title.replace("\x00", "").split())
    letters = sum(c.isalpha() for c in title)
    if (
        not letters >= 2
        or len(title) > _LONGEST
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
    """Return the largest heading of the first page."""
    first = [
        block for block in blocks
        if block.lines[0].page == 0 and block.kind in ("heading", "text")
        and sum(map(str.isalpha, text_of(block))) >= _MIN_LETTERS
    ]  # fmt: skip
    large = [b for b in first if b.lines[0].size >= _BIGGER * styles.body and b.kind == "heading"]
    if not large:
        top = [b for b in first[:2] if b.kind == "heading"]
        return top[0] if top else None
    best = max(large, key=lambda b: b.lines[0].size)
    if len(text_of(best).split()) == 1:
        longer = [b for b in large if len(text_of(b).split()) >= 3]
        best = max(longer, key=lambda b: b.lines[0].size, default=best)
    return best


def text_of(block: Block) -> str:
    """Return a block's lines as one text."""
    return " ".join(line.text for line in block.lines)


def without_marks(title: str) -> str:
    """Return a title without footnote marks at its end."""
    return title.rstrip("∗*†‡§ ").strip()
