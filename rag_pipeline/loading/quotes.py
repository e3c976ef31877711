"""Find a quote in a text, even if white space, hyphens or typography differ."""

import functools
import re
import unicodedata

from rag_pipeline.datamodels import Span

_SHAPES = str.maketrans(
    dict.fromkeys("‘’‚‛′`´", "'")
    | dict.fromkeys("“”„‟″«»", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_DASH = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_WEAKEST_OFFER = 70.0
_LONGEST_COMPARED = 2_000_000


class Searchable:
    """A text in which quotes are found. The text is normalised on first use."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quote: str) -> list[Span]:
        """Return all spans that equal the quote, or else that equal it after normalisation.

        Spans may overlap.
        """
        exact = [(start, start + len(quote)) for start in _starts(quote, self.text)]
        return exact or self._find_normalised(quote)

    def nearest(self, quote: str) -> str:
        """Return the passage most similar to the quote, or "" if none is similar."""
        from rapidfuzz.fuzz import partial_ratio_alignment

        wanted = _normalised(quote)[0]
        text, offsets = self._normalised
        if not wanted or len(wanted) > len(text) or len(text) > _LONGEST_COMPARED:
            return ""
        found = partial_ratio_alignment(wanted, text, score_cutoff=_WEAKEST_OFFER)
        if found is None or found.dest_start == found.dest_end:
            return ""
        first, last = offsets[found.dest_start], offsets[found.dest_end - 1]
        while first > 0 and self.text[first - 1].isalnum():
            first -= 1
        while last + 1 < len(self.text) and self.text[last + 1].isalnum():
            last += 1
        return self.text[first : last + 1].strip().lstrip(".,;:!?)").lstrip()

    @functools.cached_property
    def _normalised(self) -> tuple[str, list[int]]:
        return _normalised(self.text)

    def _find_normalised(self, quote: str) -> list[Span]:
        wanted = _normalised(quote)[0]
        text, offsets = self._normalised
        spans: list[Span] = []
        for start in _starts(wanted, text) if wanted else ():
            end = start + len(wanted)
            # One character may normalise to several, which a quote must not split.
            if start and offsets[start] == offsets[start - 1]:
                continue
            if end < len(offsets) and offsets[end] == offsets[end - 1]:
                continue
            spans.append((offsets[start], offsets[end - 1] + 1))
        return spans


def _starts(wanted: str, text: str) -> list[int]:
    starts, start = [], text.find(wanted)
    while start >= 0:
        starts.append(start)
        start = text.find(wanted, start + 1)
    return starts


def _normalised(text: str) -> tuple[str, list[int]]:
    """Return the normalised text, and the original offset of each normalised character."""
    # A line end may add white space, invisible characters and dashes, so these are removed.
    letters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text):
        for letter in _plain(character):
            letters.append(letter)
            offsets.append(offset)
    joined = "".join(letters)
    for dash in reversed(list(_DASH.finditer(joined))):
        del offsets[dash.start()]
    return _DASH.sub("", joined), offsets


@functools.cache
def _plain(character: str) -> str:
    return "".join(
        letter
        for letter in unicodedata.normalize("NFKD", character.translate(_SHAPES)).casefold()
        if not letter.isspace() and unicodedata.category(letter) != "Cf"
    )
