"""List the files in a folder that match glob patterns, with a reason for each unusable file."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pathspec import GitIgnoreSpec
from wcmatch import glob

UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Matches characters of a document_id that could control a terminal, fake a name or break UTF-8."""
_BY_PROGRAMS = ("**/~$*", "**/[Tt]humbs.db", "**/[Dd]esktop.ini")
"""Lock files of Office, and files that Windows adds to folders."""
_LINK = (
    "a link to a folder is not followed; set documents.follow_links: true to follow links inside "
    "the documents folder, or anywhere to follow all links"
)
_UNREAD = "cannot read"
"""The start of reasons that may not hold at the next load."""


class ListedFile(NamedTuple):
    """A file of a folder, with its POSIX path below the folder.

    `reason` says why the file is unusable, or is "". `unread` is True if the next load may be able
    to read the file.
    """

    relative: str
    reason: str = ""
    unread: bool = False


def matcher(*patterns: str, hidden: bool) -> Callable[[str], bool]:
    """Return a function that tests whether a POSIX path matches one of these glob patterns.

    `**` matches any number of folders. Wildcards match names that start with `.` only if `hidden`
    is True. Before Python 3.13, `pathlib.match` lacks `**`, and `pathlib.glob` silently skips
    unreadable folders.
    """
    steps = ([step for step in pattern.split("/") if step not in ("", ".")] for pattern in patterns)
    plain = ["/".join(own) for own in steps]
    flags = glob.GLOBSTAR | glob.CASE | glob.FORCEUNIX | (glob.DOTGLOB if hidden else 0)
    return glob.compile([*plain, *(p.removesuffix("/**") for p in plain)], flags=flags).match


def selector(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a path matches `include` and not `exclude`."""
    included = matcher(*include, hidden=False)
    excluded = matcher(*exclude, *_BY_PROGRAMS, hidden=True)
    return lambda path: included(path) and not excluded(path)


def find_files(
    root: Path,
    include: Iterable[str],
    exclude: Iterable[str],
    gitignore: bool = False,
    follow_links: bool | Literal["anywhere"] = False,
    *,
    hidden: bool = False,
) -> tuple[list[ListedFile], int]:
    """Return the matching files, unsorted, and the number of all files.

    - Skip hidden files and folders unless `hidden` is True or an include pattern names them.
    - If `gitignore` is True, skip files that Git ignores.
    - If `follow_links` is True, follow links to folders inside the root. If it is `anywhere`,
      follow all links to folders. Enter each folder only once.
    - Do not enter folders that match an exclude pattern such as `build/**`.

    Raise OSError if the root is unreadable.
    """
    include, exclude = list(include), list(exclude)
    included = matcher(*include, hidden=hidden)
    excluded = matcher(*exclude, *_BY_PROGRAMS, hidden=True)
    enter_hidden = hidden or any(s[:1] == "." != s for p in include for s in p.split("/"))
    real_root = os.path.realpath(root)
    found: list[ListedFile] = []
    seen = 0
    whole = (pattern.removesuffix("/**") for pattern in exclude if pattern.endswith("/**"))
    closed = matcher(*whole, hidden=True)
    for relative, entry, reason in _walk(str(root), enter_hidden, gitignore, follow_links, closed):
        seen += 1
        if excluded(relative):
            continue
        if not reason:
            if not included(relative):
                continue
            reason = _obstacle(entry, "/" if follow_links == "anywhere" else real_root)
        if not reason and UNSAFE.search(relative):
            reason = "the file name is not UTF-8 or has control or invisible characters; rename it"
        found.append(ListedFile(relative, reason, reason.startswith(_UNREAD)))
    return found, seen


def _walk(
    root: str,
    enter_hidden: bool,
    gitignore: bool,
    follow_links: bool | Literal["anywhere"],
    closed: Callable[[str], bool],
) -> Iterator[tuple[str, os.DirEntry[str], str]]:
    """Yield (path, entry, reason) for each file and for each folder that can't be entered."""
    above = Ignored.above(root) if gitignore else Ignored()
    pending: list[tuple[str, os.DirEntry[str] | None, Ignored]] = [("", None, above)]
    entered = {os.path.realpath(root)}
    linked: list[tuple[str, os.DirEntry[str], Ignored]] = []
    while pending or linked:
        # Follow links last, sorted by name, so that a folder is listed under its real path.
        if not pending:
            linked.sort(key=lambda link: link[0])
        prefix, folder, ignored = pending.pop() if pending else linked.pop(0)
        if folder is not None and (folder.is_symlink() or follow_links == "anywhere"):
            reason = _not_followed(folder, entered, root, follow_links == "anywhere")
            if reason:
                yield prefix.rstrip("/"), folder, reason
                continue
        path = folder.path if folder else root
        if follow_links:
            entered.add(os.path.realpath(path))
        try:
            if gitignore:
                ignored = ignored.below(prefix, path)
            with os.scandir(path) as entries:
                for entry in entries:
                    relative = prefix + entry.name
                    if gitignore and ignored.matches(relative, entry.is_dir()):
                        continue
                    if not os.path.isdir(entry.path):  # noqa: PTH112 (never raises for a loop)
                        yield relative, entry, ""
                    elif closed(relative) or (entry.name.startswith(".") and not enter_hidden):
                        continue
                    elif entry.is_symlink() and follow_links:
                        linked.append((relative + "/", entry, ignored))
                    elif entry.is_symlink():
                        yield relative, entry, _LINK
                    else:
                        pending.append((relative + "/", entry, ignored))
        except OSError as error:
            if folder is None:
                raise
            yield prefix.rstrip("/"), folder, f"{_UNREAD} the folder: {error.strerror}"


def _not_followed(folder: os.DirEntry[str], entered: set[str], root: str, may_leave: bool) -> str:
    target, root = os.path.realpath(folder.path), os.path.realpath(root)
    common = os.path.commonpath([target, root])
    if target not in entered and common == target:
        return f"a link to {target}, which contains the documents folder"
    if common != root and not may_leave:
        return f"a link that leaves the documents folder: {target}"
    if target not in entered:
        return ""
    if not folder.is_symlink():
        return f"a folder whose documents are listed under a link to {target}"
    return f"a link to {target}; its documents are listed under that path"


@dataclass(frozen=True)
class Ignored:
    """The rules of the `.gitignore` files in a folder and in the folders above it.

    `specs` has (prefix, rest, rules) for each file. `prefix` is the path from the documents' folder
    to the file's folder below it, or "". `rest` is the path to the documents' folder from the
    file's folder above it, or "".
    """

    specs: tuple[tuple[str, str, GitIgnoreSpec], ...] = ()

    @classmethod
    def above(cls, root: str) -> "Ignored":
        """Return the rules of the `.gitignore` files above a folder, up to the checkout's root."""
        real = Path(root).resolve()
        top = next((f for f in (real, *real.parents) if (f / ".git").exists()), real)
        ignored = cls()
        for folder in reversed(real.parents):
            if folder.is_relative_to(top):
                ignored = ignored.below("", str(folder), f"{real.relative_to(folder).as_posix()}/")
        return ignored

    def below(self, prefix: str, path: str, rest: str = "") -> "Ignored":
        """Return these rules with the rules of the folder's `.gitignore`, if it has one."""
        try:
            lines = Path(path, ".gitignore").read_text("utf-8", "replace").splitlines()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return self
        return Ignored((*self.specs, (prefix, rest, GitIgnoreSpec.from_lines(lines))))

    def matches(self, relative: str, is_folder: bool) -> bool:
        """Return whether a path is ignored. The nearest file with a matching rule decides."""
        for prefix, rest, spec in reversed(self.specs):
            own = rest + relative.removeprefix(prefix) + ("/" if is_folder else "")
            decided = spec.check_file(own).include
            if decided is not None:
                return decided
        return False


def _obstacle(entry: os.DirEntry[str], real_root: str) -> str:
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link that leads to itself"
        if entry.is_symlink() and error.errno == errno.ENOENT:
            return f"a broken link: there is no {Path(entry.path).readlink()}"
        return f"{_UNREAD} the file: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if os.path.commonpath([target, real_root]) != real_root:
            return f"a link that leaves the documents folder: {target}"
    return ""
