"""Survey a folder in limited time: kinds of files, languages, scans and giant files."""

import hashlib
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import ConfigError, RagPipelineError
from rag_pipeline.loading.folder import ListedFile
from rag_pipeline.loading.images import IMAGE_TYPES
from rag_pipeline.loading.languages import languages_of
from rag_pipeline.loading.sources import SourceFile, folder_of, is_prose, list_files, scan

_SAMPLE = 80
"""Maximum number of files that are read, evenly spread over suffixes and folders."""
_SECONDS = 60
"""Time in seconds after which no further file is read. An idle machine needs about ten."""
_MIN_CHARACTERS = 200
_MAX_BYTES = 5_000_000
_MOST_EQUAL = 1_000
_PARSE_SECONDS = 20
_LARGE_LOG = 1_000_000
_LARGE_DUMP = 10_000_000
_LEAST_REST = 20_000
"""Minimum number of characters in other files. With fewer, people search the data files."""
_LOG = re.compile(r"\.(?:log|out|trace|sql|dump)(?:[._-]\d+)*$", re.IGNORECASE)
_DUMP = re.compile(r"\.(?:csv|tsv|xml|jsonl?|ndjson|ya?ml|txt|md)$", re.IGNORECASE)
_DATA = re.compile(r"\.(?:csv|tsv|xml|jsonl?|ndjson|xls[xm]?|ods)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Survey:
    """A description of a folder of documents, from a sample of its files.

    - `sizes`: the size in bytes of each usable file, by path.
    - `unusable`: the number of unusable files.
    - `heavy`: the estimated number of characters of each giant log or data dump, by path.
    - `texts`: the texts of the sample, without giant files.
    - `languages`: the share (0 to 1) of each language among the sample's longer texts of prose.
    - `characters`: the estimated number of characters of all other files.
    - `unread`: the number of files in the sample that were not read in time.
    - `scans`: the scanned files in the sample, which have no text.
    - `copies`: the files with the same bytes as another file. At most 1,000 files are compared.
    """

    sizes: Mapping[str, int]
    unusable: int
    heavy: Mapping[str, int]
    texts: Sequence[str]
    languages: Mapping[str, float]
    characters: int
    unread: int
    scans: Sequence[str]
    copies: Sequence[str]

    @property
    def kinds(self) -> Mapping[str, int]:
        """Return the number of files by suffix, the most frequent suffix first."""
        counts = Counter(PurePosixPath(path).suffix.lower() or "no suffix" for path in self.sizes)
        return dict(counts.most_common())


def survey(documents: Path, exclude: Sequence[str] = ()) -> Survey:
    """Survey a folder or one file. Read at most 80 files, for at most about 60 seconds.

    Only texts of at least 200 characters count for `languages`. Code and tables count only if there
    is no prose, because their language is often guessed wrong.
    """
    base = folder_of(documents)
    limits = {"max_bytes": _MAX_BYTES, "parse_seconds": _PARSE_SECONDS}
    settings = DocumentsSource(path=str(base), exclude=tuple(exclude), **limits)
    try:
        listed = list_files(settings, documents)
    except ConfigError:  # no files
        listed = []
    usable = [file for file in listed if not file.reason]
    sizes = {file.relative: _size(base / file.relative) for file in usable}
    heavy = {path: size for path, size in sizes.items() if _is_giant(path, size)}
    light = [file for file in usable if file.relative not in heavy]
    read, scans, lengths, unread = _read_sample(settings, base, light)
    whole = tuple(sum(length[i] for length in lengths.values()) for i in (0, 1))
    own = {path: len(text) for path, text in read if _DATA.search(path)}
    characters = dict[str, float]()
    for file in light:
        suffix = PurePosixPath(file.relative).suffix
        known = lengths.get(suffix) or ((0, 1) if suffix.lower() in IMAGE_TYPES else whole)
        estimate = sizes[file.relative] * known[0] / max(1, known[1])
        characters[file.relative] = own.get(file.relative, estimate)
    for path, count in _dumps(characters).items():
        heavy[path] = count
        del characters[path]
    read = [(path, text) for path, text in read if path not in heavy]
    long = [(path, text) for path, text in read if len(text.strip()) >= _MIN_CHARACTERS]
    prose = [text for path, text in long if is_prose(path)]
    return Survey(
        sizes, len(listed) - len(usable), heavy, [text for _, text in read],
        languages_of(prose or [text for _, text in long]), round(sum(characters.values())),
        unread, scans, _copies(base, sizes),
    )  # fmt: skip


def _copies(base: Path, sizes: Mapping[str, int]) -> list[str]:
    counts = Counter(size for size in sizes.values() if 0 < size <= _MAX_BYTES)
    equal = sorted((p for p, size in sizes.items() if counts[size] > 1), key=lambda p: (len(p), p))
    seen = dict[bytes, str]()
    found = []
    for path in equal[:_MOST_EQUAL]:
        with suppress(OSError):
            if seen.setdefault(hashlib.sha256((base / path).read_bytes()).digest(), path) != path:
                found.append(path)
    return found


def _read_sample(
    settings: DocumentsSource, base: Path, files: Sequence[ListedFile]
) -> tuple[list[tuple[str, str]], list[str], Mapping[str, Sequence[int]], int]:
    """Return texts with paths, scans, (characters, bytes) by suffix, and the number unread."""
    texts: list[tuple[str, str]] = []
    scans: list[str] = []
    lengths: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    by_kind = sorted(files, key=lambda file: (PurePosixPath(file.relative).suffix, file))
    sample = by_kind[:: -(-len(files) // _SAMPLE) or 1]
    random.Random(0).shuffle(sample)  # if time runs out, each suffix has its share of the sample
    began = time.monotonic()
    for number, file in enumerate(sample):
        if time.monotonic() - began > _SECONDS:
            return texts, scans, lengths, len(sample) - number
        for source in islice(scan(settings, base, files=[file]), 3):
            if not isinstance(source, SourceFile):
                continue
            try:
                text = source.load().text
            except RagPipelineError as error:
                text = ""
                scans += [file.relative] if "scanned" in str(error) else []
            of_suffix = lengths[PurePosixPath(file.relative).suffix]
            of_suffix[0] += len(text)
            of_suffix[1] += source.n_bytes
            if text:
                texts.append((file.relative, text))
    return texts, scans, lengths, 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_giant(path: str, size: int) -> bool:
    least = _LARGE_LOG if _LOG.search(path) else _LARGE_DUMP if _DUMP.search(path) else None
    return least is not None and size >= least


def _dumps(characters: Mapping[str, float]) -> dict[str, int]:
    """Return the characters of the few data files with most of the text, or {} without any."""
    whole = sum(characters.values())
    least = max(_LARGE_LOG, whole / 10)
    found = {p: round(n) for p, n in characters.items() if n >= least and _DATA.search(p)}
    return found if whole / 2 <= sum(found.values()) <= whole - _LEAST_REST else {}
