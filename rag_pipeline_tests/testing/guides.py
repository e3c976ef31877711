"""The code blocks of README and the guides, with the output that they show."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_pipeline_tests.testing.checkout import ROOT

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_SHELL, _PYTHON = ("", "sh", "bash", "console"), ("python",)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```(?:\n+^```text\n(.*?)^```)?", re.M | re.S)


class Block(NamedTuple):
    """A code block of a guide. `output` is what its last line prints, or "" if it is not shown."""

    page: str
    language: str
    text: str
    output: str

    @property
    def lines(self) -> list[str]:
        """Return what is run one by one: the lines of a shell block, or the whole Python block."""
        if self.language in _PYTHON:
            return [self.text]
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]


def blocks(pages: list[Path] = GUIDES) -> Iterator[Block]:
    """Yield the blocks of commands and of Python."""
    for page in pages:
        for language, text, output in _BLOCK.findall(page.read_text()):
            if language in (*_SHELL, *_PYTHON):
                yield Block(page.name, language, text, output)


def prints(shown: str, printed: str) -> bool:
    """Return whether an output is the one that a guide shows.

    Each number stands for any number and `…` for any text. White space and dashes of rules do not
    count.
    """
    parts = (re.escape(_masked(part)) for part in shown.split("…"))
    return re.fullmatch(".*".join(parts), _masked(printed), re.S) is not None


def _masked(text: str) -> str:
    return re.sub(r"[\s─]+", "", re.sub(r"\d+(?:[.,]\d+)*", "0", text))
