"""Measures of the quality of a document's text, and the warnings they give rise to."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rag_pipeline.loading.extras import install, is_installed
from rag_pipeline.loading.pdf.lines import is_cjk

_WORD = re.compile(r"[^\W\d_]+")
_ADDRESS = re.compile(r"\S*(://|www\.|@)\S*")
_LONGEST_WORD = 25
_MOST_GLUED = 0.005
_MOST_PIPES = 0.5
_MOST_REPLACED = 0.01
_MEAN_WORD = (2.2, 12.0)
_LEAST_WORDS = 50
_LEAST_CONFIDENCE = 0.8


@dataclass(frozen=True, slots=True)
class TextQuality:
    """Shares are between 0 and 1.

    `glued` is the share of words of more than 25 letters, `pipes` that of characters in table
    rows, `replaced` that of characters that the fonts don't map to letters. `unread` counts the
    pages that hold an image and no text, `recognised` those that were read by OCR, with the mean
    `confidence` of their characters.
    """

    pages: int
    words: int
    glued: float
    pipes: float
    replaced: float
    mean_word: float
    with_text: int
    unread: int = 0
    recognised: int = 0
    confidence: float | None = None

    def warnings(self) -> list[str]:
        """Say what is beyond its limit, with the limit."""
        found = []
        if self.words >= _LEAST_WORDS:
            if self.glued > _MOST_GLUED:
                found.append(
                    f"{self.glued:.1%} of the words have over {_LONGEST_WORD} letters: glued?"
                )
            low, high = _MEAN_WORD
            if not low <= self.mean_word <= high:
                found.append(
                    f"words have {self.mean_word:.1f} letters on average, not {low:g} to {high:g}"
                )
            if self.pipes > _MOST_PIPES:
                found.append(f"{self.pipes:.0%} of the characters are in tables")
        if self.replaced > _MOST_REPLACED:
            found.append(f"{self.replaced:.1%} of the characters are unknown to the file's fonts")
        if self.unread:
            what = f"{self.unread} of {self.pages} pages are images that were not read"
            hint = "" if is_installed("ocr") else f"; `{install('ocr')}` and run again to read them"
            found.append(what + hint)
        if self.confidence is not None and self.confidence < _LEAST_CONFIDENCE:
            found.append(
                f"text in images was recognised with a confidence of {self.confidence:.2f}"
            )
        return found

    def to_json(self) -> str:
        """Return the record as it stands in a document's metadata."""
        values = {k: v for k, v in asdict(self).items() if v is not None}
        return json.dumps({
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in values.items()
        })  # fmt: skip

    @classmethod
    def from_json(cls, stored: str) -> "TextQuality":
        """Return the record that `to_json` wrote."""
        return cls(**json.loads(stored))


def measure(
    text: str, characters: Sequence[int], unmapped: int, **pages: float | None
) -> TextQuality:
    """Measure a text; `characters` counts those of each page, `unmapped` the unknown ones."""
    plain = _ADDRESS.sub(" ", text)
    words = [word for word in _WORD.findall(plain) if not is_cjk(word[0])]
    lengths = [len(word) for word in words]
    in_tables = sum(len(line) for line in text.split("\n") if line.startswith("|"))
    return TextQuality(
        pages=len(characters),
        words=len(words),
        glued=sum(n > _LONGEST_WORD for n in lengths) / max(len(words), 1),
        pipes=in_tables / max(len(text), 1),
        replaced=unmapped / max(sum(characters), 1),
        mean_word=sum(lengths) / max(len(words), 1),
        with_text=sum(bool(n) for n in characters),
        **pages,  # type: ignore[arg-type]
    )
