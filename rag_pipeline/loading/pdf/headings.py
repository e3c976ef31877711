"""Set the levels of headings from their numbers and their style."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

from rag_pipeline.loading.pdf.paragraphs import NAMED, NUMBERED, Block


def set_levels(blocks: Sequence[Block], title: Block | None) -> None:
    """Set each heading's level from its number, else from its style."""
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
    """Turn large lines under a title into text: authors and places are not headings."""
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
    """Return 1 for `2 Method`, 2 for `2.1 Data`, 0 without a number."""
    numbered = NUMBERED.match(block.lines[0].text)
    if numbered is None:
        return 0
    if decimal := numbered[2] or (numbered[5] if "." in (numbered[5] or "").rstrip(".") else ""):
        return len(decimal.rstrip(".").split("."))
    if numbered[5] and numbered[5].endswith("."):
        return 2 if not block.lines[0].bold else 1
    return 1
