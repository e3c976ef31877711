"""Join words that were hyphenated at line ends, with the text itself as the dictionary."""

import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)-$")
_ADDRESS = re.compile(r"(https?://|www\.)\S*[./_=&?#-]$")
_GOES_ON = re.compile(r"[\w%~./-]+")
_LONGEST = 60
_LONGEST_ADDRESS = 200
_COMPOUNDS = frozenset(
    "all cross double four fourth full half high left long low multi non one open post real "
    "right second self semi short single so state then third three top triple two well".split()
)
"""First parts of words that keep their hyphen if the word does not occur elsewhere."""
_JOINED = frozenset(
    "another become cannot everyone everything forever however inside into itself maybe nobody "
    "nothing nowadays otherwise outside overall overview someone something therefore throughout "
    "today together understand undertake until upon whatever whenever whereas wherever whether "
    "within without yourself highlight highlights background however furthermore moreover "
    "nevertheless somewhat likewise meanwhile forward toward towards update updates output input "
    "outputs inputs outcome outcomes income notice notable".split()
)
_CONJUNCTIONS = ("and", "or", "und", "oder", "et", "ou", "to")


class Hyphens:
    """The words of a text, by which a hyphen at a line end is kept or removed."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._words: Counter[str] = Counter()
        rest = False  # whether the line starts with the second half of a word
        for line in lines:
            broken = _LAST.search(line[-_LONGEST:])
            words = _WORD.findall(line[: len(line) - len(broken[0])] if broken else line)
            self._words.update(word.casefold() for word in (words[1:] if rest else words))
            rest = broken is not None

    def joint(self, before: str, after: str) -> str:
        """Join the text `before` a line end to the line `after` it. Keep or remove a hyphen."""
        if _ADDRESS.search(before[-_LONGEST_ADDRESS:]) and _GOES_ON.match(after):
            return before + after
        broken, rest = _LAST.search(before[-_LONGEST:]), _WORD.match(after)
        if broken is None or rest is None:
            glued = before.endswith("-") and before[-2:-1].isalnum() and after[:1].isalnum()
            return before + after if glued else f"{before} {after}"
        capitals = broken[1].isupper() and rest[0].isupper() and len(rest[0]) > 3
        if not (rest[0][0].islower() or capitals):
            return before + after
        if rest[0] in _CONJUNCTIONS:
            return f"{before} {after}"
        return before[:-1] + after if self._is_one(broken[1], rest[0]) else before + after

    def _is_one(self, first: str, second: str) -> bool:
        first, second = first.casefold(), second.casefold()
        together, apart = self._words[first + second], self._words[f"{first}-{second}"]
        if together or apart:
            return together >= apart
        if "-" in first:
            return False
        if first + second in _JOINED:
            return True
        if first in _COMPOUNDS:
            return False
        forms = second, f"{second}s", second.removesuffix("s")
        known = self._words[first] and any(self._words[form] for form in forms)
        return not (known and len(first) >= 3 and len(second) >= 3)
