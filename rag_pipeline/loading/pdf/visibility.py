"""Drop the words of a page that nobody sees.

The page is drawn with and without its text. A word is visible if the two images differ at its
place. Invisible words over drawn letters are kept, because they are the text layer of a scan.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from rag_pipeline.loading.pdf.elements import Page, Word, around, turn_back
from rag_pipeline.loading.pdf.render import Image, drawn

_SCALE = 1.0
"""Pixels per PDF point."""
_DIFFERENCE = 10
"""Minimum difference (0 to 255) in a colour channel that a person notices."""
_INK = 48
"""Minimum range (0 to 255) of a colour channel in a place that shows letters."""


def drop_unseen(page: Any, found: Page, owners: Iterable[Any]) -> None:
    """Drop the invisible words of a loaded page, and count their characters in `found.unseen`.

    `owners` are the text objects of the words.
    """
    if not found.words:
        return
    shown, _ = drawn(page, _SCALE)
    objects = list(owners)
    try:
        for one in objects:
            pdfium.FPDFPageObj_SetIsActive(one, False)
        behind, _ = drawn(page, _SCALE)
    finally:
        for one in objects:
            pdfium.FPDFPageObj_SetIsActive(one, True)
    change = np.abs(shown.astype(np.int16) - behind).max(axis=2)
    kept = []
    for word in found.words:
        reason = _unseen(word, found, change, behind)
        if not reason:
            kept.append(word)
            continue
        found.unseen[reason] += len(word.text)
        found.characters -= len(word.text)
    found.words = kept


def _unseen(word: Word, page: Page, change: Any, behind: Image) -> str:
    """Return the reason if a word is invisible, or else ""."""
    if word.size < 1:
        return "smaller than a point"
    one = turn_back(word.x0, word.base - 0.8 * word.size, page.turned, *page.displayed)
    two = turn_back(word.x1, word.base + 0.1 * word.size, page.turned, *page.displayed)
    x0, y0, x1, y1 = around(one, two)
    height, width = change.shape
    scale_x, scale_y = width / page.displayed[0], height / page.displayed[1]
    left, right = max(int(x0 * scale_x), 0), min(int(x1 * scale_x) + 1, width)
    top, bottom = max(int(y0 * scale_y), 0), min(int(y1 * scale_y) + 1, height)
    if left >= right or top >= bottom:
        return "off the page"
    if word.drawn and (change[top:bottom, left:right].max() >= _DIFFERENCE or not word.drawable):
        return ""
    place = behind[top:bottom, left:right]
    if int(np.ptp(place, axis=(0, 1)).max()) >= _INK:
        return ""
    return "covered, clipped or in the colour behind it" if word.drawn else "invisible"
