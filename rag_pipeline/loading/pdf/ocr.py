"""Recognise the words of scanned pages with the models in the `rapidocr` package.

The extra `ocr` must be installed. A page is rendered at 200 dots per inch, or fewer if the page is
very large. A page with vertical or upside-down text is turned.
"""

import logging
import re
import statistics
from functools import cache
from typing import Any

import numpy as np

from rag_pipeline.loading.pdf.elements import Page, Word
from rag_pipeline.loading.pdf.render import LONGEST_DRAWN, Image, drawn

_DPI = 200
_FINDING_SIDE = 1280
_MIN_CONFIDENCE = 0.5
_DOUBTFUL = 0.85
_SAME_SIZE = 0.14
_GLUED = re.compile(r"(?<=[a-z][.,;:!?])(?=[A-Z][a-z])")
"""Matches the end of a sentence at which the models omit the blank."""
_X_HEIGHT = 0.72
"""Font size as a share of the height of a line's box."""

_Line = tuple[str, float, np.ndarray[Any, np.dtype[np.float64]]]
"""A line's text, confidence (0 to 1), and corners in pixels, clockwise from the top left."""


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": LONGEST_DRAWN,
            "Global.text_score": _MIN_CONFIDENCE,
            "Global.use_cls": False,
            # Lines are found in a smaller image, which takes a third of the memory.
            "Det.limit_type": "max",
            "Det.limit_side_len": _FINDING_SIDE,
            "Rec.rec_batch_num": 1,
            # One thread, because several processes recognise documents in parallel.
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        }
    )


def recognise(page: Any) -> Page:
    """Return a page with its recognised words, and the mean confidence (0 to 1) of characters."""
    image, scale = drawn(page, _DPI / 72)
    height, width = image.shape[:2]
    found = Page(width / scale, height / scale, image_share=1.0)
    lines = _lines(image)
    turned = 0
    if _is_sideways(lines):
        # Read both directions, and keep the result with the higher confidence.
        readings = {quarter: _lines(np.rot90(image, quarter // 90)) for quarter in (90, 270)}
        turned = max(readings, key=lambda quarter: _confidence(readings[quarter]))
        lines = readings[turned]
    elif lines and _confidence(lines) < _DOUBTFUL:
        upside_down = _lines(np.rot90(image, 2))
        if _confidence(upside_down) > _confidence(lines):
            turned, lines = 180, upside_down
    # The direction of the text is opposite to the rotation for reading.
    found.turned = {0: 0, 90: 270, 180: 180, 270: 90}[turned]
    if turned in (90, 270):
        found.width, found.height = found.height, found.width
    angle = _median_slope(lines)
    common = statistics.median([_size(box) for _, _, box in lines] or [1.0])
    for text, _, box in lines:
        # The height of a box depends on its letters, so similar lines get the usual size.
        size = _size(box)
        size = common if abs(size - common) < _SAME_SIZE * common else size
        found.words += _words(text, box / scale, size / scale, angle)
        found.characters += sum(not char.isspace() for char in text)
    found.confidence = _confidence(lines)
    return found


def _lines(image: Image) -> list[_Line]:
    result = _engine()(np.ascontiguousarray(image), use_cls=False)
    if result.boxes is None or result.txts is None:
        return []
    return [
        (_GLUED.sub(" ", text), float(score), np.asarray(box, dtype=float))
        for text, score, box in zip(result.txts, result.scores, result.boxes, strict=True)
        if text.strip()
    ]


def _confidence(lines: list[_Line]) -> float:
    characters = sum(len(text) for text, _, _ in lines)
    return sum(score * len(text) for text, score, _ in lines) / characters if characters else 0.0


def _is_sideways(lines: list[_Line]) -> bool:
    tall = sum(
        np.ptp(box[:, 1]) > 1.5 * np.ptp(box[:, 0]) for text, _, box in lines if len(text) > 2
    )
    return bool(tall > 0.5 * max(sum(len(text) > 2 for text, _, _ in lines), 1))


def _median_slope(lines: list[_Line]) -> float:
    long = [box for text, _, box in lines if len(text) > 20]
    if len(long) < 3:
        return 0.0
    return statistics.median(
        float((box[1, 1] - box[0, 1]) / max(box[1, 0] - box[0, 0], 1.0)) for box in long
    )


def _size(box: Any) -> float:
    return float(np.linalg.norm(box[3] - box[0])) * _X_HEIGHT


def _words(text: str, box: Any, size: float, slope: float) -> list[Word]:
    """Return a line's words, placed as if all letters had one width and lines had no slope."""
    x0, x1 = float(box[:, 0].min()), float(box[:, 0].max())
    middle_y = float(box[:, 1].mean()) - slope * (x0 + x1) / 2
    base = middle_y + 0.32 * size
    shift = slope * middle_y
    step = (x1 - x0) / max(len(text), 1)
    words: list[Word] = []
    place = 0
    for part in text.split(" "):
        if part:
            start = x0 + place * step + shift
            words.append(Word(part, start, start + len(part) * step, base, size, space=bool(words)))
        place += len(part) + 1
    return words
