"""Which files of a folder are documents."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.datamodels import Document
from rag_pipeline.errors import ConfigError
from rag_pipeline.loading.folder import _LINK, matcher
from rag_pipeline_tests.testing.scanning import fill, ids, items, outcomes

NAMES = ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt", ".hidden.txt", ".git/e.txt", "sub/.f.txt"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["**/*"], [], ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt"]),
        (["*"], [], ["a.txt", "b.md"]),
        (["**/*.txt"], [], ["a.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["**"], ["**/*.txt"], ["b.md"]),
        (["sub/**"], [], ["sub/c.txt", "sub/deep/d.txt"]),
        (["sub/*"], [], ["sub/c.txt"]),
        (["./sub/*.txt", "*.md"], [], ["b.md", "sub/c.txt"]),
        (["**/*"], ["sub"], ["a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt"]),
        (["**/*"], ["sub/**"], ["a.txt", "b.md"]),
        (["**/*"], ["**/deep/**", "?.md"], ["a.txt", "sub/c.txt"]),
        (["**/[c-d].txt"], [], ["sub/c.txt", "sub/deep/d.txt"]),
        (["**/deep/*"], [], ["sub/deep/d.txt"]),
        ([".git/*"], [], [".git/e.txt"]),
        (["**/.*"], [], [".hidden.txt", "sub/.f.txt"]),
        ([".*", "*"], [".h*"], ["a.txt", "b.md"]),
    ],
)
def test_globs(tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]) -> None:
    fill(tmp_path, *NAMES)
    assert ids(tmp_path, include=include, exclude=exclude) == expected


@given(st.lists(st.sampled_from(["a", "bb", "c.txt"]), min_size=1, max_size=4))
def test_double_star_spans_any_depth(segments: list[str]) -> None:
    path = "/".join(segments)
    assert matcher("**/*", hidden=False)(path)
    assert matcher("**/" + segments[-1], hidden=False)(path)
    assert matcher(segments[0] + "/**", hidden=False)(path)
    assert not matcher("**/*/" * len(segments) + "*", hidden=False)(path)


def test_order_is_by_document_id(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.txt", "a-b.txt", "a.txt", "Z.txt", "é.txt")
    assert ids(tmp_path) == ["Z.txt", "a-b.txt", "a.txt", "a/z.txt", "b.txt", "é.txt"]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, "no documents in .*: the folder is empty"),
        (
            ["a.txt", "b.txt"],
            {"include": ["*.md"]},
            r"none of the 2 files in .* matches include \['\*.md'\]",
        ),
        (["a.txt"], {"exclude": ["**"]}, r"but not exclude \['\*\*'\]"),
        (["a.txt"], {"include": ["/a.txt/x"]}, "documents.include: none of the 1 files"),
        ([".a.txt"], {}, r"only hidden files in .* in include, such as '\.a\.txt'"),
        ([".notes/a.txt", "b.md"], {"include": ["**/*.txt"]}, r"such as '\.notes/a\.txt'"),
        ([".a.txt"], {"include": ["*.md"]}, "none of the 1 files"),
    ],
)
def test_nothing_to_load(
    tmp_path: Path, names: list[str], settings: dict[str, Any], message: str
) -> None:
    fill(tmp_path, *names)
    with pytest.raises(ConfigError, match=message):
        items(tmp_path, **settings)


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file or folder: .*/none"):
        items(tmp_path / "none")


def test_links_and_special_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "real.txt", "x.txt/inner.txt")
    fill(tmp_path, "outside.txt", "root2/sibling.txt", "out/o.txt")
    (root / "inside-link.txt").symlink_to("real.txt")
    (root / "escape.txt").symlink_to("../outside.txt")
    (root / "sibling.txt").symlink_to("../root2/sibling.txt")
    (root / "broken.txt").symlink_to("nowhere.txt")
    (root / "loop1.txt").symlink_to("loop2.txt")
    (root / "loop2.txt").symlink_to("loop1.txt")
    (root / "x.txt" / "up").symlink_to("..")
    (root / "folder").symlink_to("../out")
    os.mkfifo(root / "pipe.txt")
    results = outcomes(root)
    good = {k for k, v in results.items() if isinstance(v, Document)}
    assert good == {"real.txt", "inside-link.txt", "x.txt/inner.txt"}
    assert {k: v for k, v in results.items() if isinstance(v, str)} == {
        "escape.txt": f"a link that leaves the documents folder: {tmp_path.resolve()}/outside.txt",
        "sibling.txt": "a link that leaves the documents folder: "
        f"{tmp_path.resolve()}/root2/sibling.txt",
        "broken.txt": "a broken link: there is no nowhere.txt",
        "loop1.txt": "a link that leads to itself",
        "loop2.txt": "a link that leads to itself",
        "x.txt/up": _LINK,
        "folder": _LINK,
        "pipe.txt": "not a regular file",
    }


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    fill(tmp_path, "real/a.txt")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "b.txt").symlink_to("a.txt")
    assert isinstance(outcomes(tmp_path / "link")["b.txt"], Document)


def test_unsafe_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (tmp_path / "new\nline.txt").write_text("x")
    (tmp_path / "a\u202etxt.exe.txt").write_text("x")
    (tmp_path / "a\U000e0041.txt").write_text("x")
    for shown in ("cafe\u0301.txt", "می\u200cرم.txt", "👩\u200d🔬\ufe0f.txt"):
        (tmp_path / shown).write_text("x")
    results = outcomes(tmp_path)
    for shown in ("cafe\u0301.txt", "می\u200cرم.txt", "👩\u200d🔬\ufe0f.txt"):
        assert isinstance(results.pop(shown), Document)
    reason = "the file name is not UTF-8 or has control or invisible characters; rename it"
    assert results == dict.fromkeys(
        ("caf\\udce9.txt", "new\\nline.txt", "a\\u202etxt.exe.txt", "a\\U000e0041.txt"), reason
    )
    for name in results:
        name.encode()


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder in which file permissions count, even where tests are run by root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in (folder, *folder.iterdir()):
            path.chmod(0o755)


def without_privileges(function: Callable[[], Any]) -> Any:
    if os.getuid() == 0:
        os.seteuid(65534)
    try:
        return function()
    finally:
        os.seteuid(os.getuid())


def test_unreadable_files_and_folders(unprivileged: Path) -> None:
    fill(unprivileged, "a.txt", "b.txt", "c.jsonl", "closed/d.txt")
    for name in ("b.txt", "c.jsonl", "closed"):
        (unprivileged / name).chmod(0)
    results = without_privileges(lambda: outcomes(unprivileged))
    assert isinstance(results.pop("a.txt"), Document)
    assert results == {
        "b.txt": "cannot read the file: Permission denied",
        "c.jsonl": "cannot read the file: Permission denied",
        "closed": "cannot read the folder: Permission denied",
    }
    unprivileged.chmod(0)
    with pytest.raises(ConfigError, match=r"cannot read .*: Permission denied"):
        without_privileges(lambda: items(unprivileged))


def test_links_to_folders_are_followed_once_on_request(tmp_path: Path) -> None:
    fill(tmp_path / "root", "a/one.txt", "b/two.txt")
    fill(tmp_path / "out", "three.txt")
    root = tmp_path / "root"
    (root / "a" / "up").symlink_to("..")
    (root / "c").symlink_to("b")
    (root / "d").symlink_to("../out")
    (root / "b" / "itself").symlink_to("itself")
    hidden = root / ".kept"
    fill(hidden, "four.txt")
    (root / "e").symlink_to(".kept")
    (root / "f").symlink_to(".kept")
    found = outcomes(root, follow_links=True)
    assert {k for k, v in found.items() if isinstance(v, Document)} == {
        "a/one.txt",
        "b/two.txt",
        "e/four.txt",
    }
    assert {k: v for k, v in found.items() if isinstance(v, str)} == {
        "a/up": f"a link to {root.resolve()}; its documents are listed under that path",
        "c": f"a link to {root.resolve()}/b; its documents are listed under that path",
        "d": f"a link that leaves the documents folder: {tmp_path.resolve()}/out",
        "f": f"a link to {root.resolve()}/.kept; its documents are listed under that path",
        "b/itself": "a link that leads to itself",
    }


def test_links_outside_the_folder_are_followed_once_on_request(tmp_path: Path) -> None:
    fill(tmp_path / "root", "a/one.txt")
    fill(tmp_path / "out", "two.txt", "below/three.txt")
    fill(tmp_path, "four.txt")
    root = tmp_path / "root"
    for name, target in (("b", "../out/below"), ("c", "../out"), ("d", ".."), ("e", "../out")):
        (root / name).symlink_to(target)
    (root / "f.txt").symlink_to("../four.txt")
    (tmp_path / "out/back").symlink_to(root)
    found = outcomes(root, follow_links="anywhere")
    real = tmp_path.resolve()
    assert {k for k, v in found.items() if isinstance(v, Document)} == {
        *("a/one.txt", "b/three.txt", "c/two.txt", "f.txt")
    }
    assert {k: v for k, v in found.items() if isinstance(v, str)} == {
        "c/below": f"a folder whose documents are listed under a link to {real}/out/below",
        "c/back": f"a link to {real}/root; its documents are listed under that path",
        "d": f"a link to {real}, which contains the documents folder",
        "e": f"a link to {real}/out; its documents are listed under that path",
    }


def test_files_ignored_by_git_are_skipped_on_request(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.log", "build/c.txt", "src/build/d.txt", "src/keep.log", "src/e.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n/build/\n")
    (tmp_path / "src" / ".gitignore").write_text("!keep.log\n*.tmp\n")
    assert ids(tmp_path, gitignore=True) == ["a.txt", "src/build/d.txt", "src/keep.log"]
    assert len(ids(tmp_path)) == 6


def test_gitignore_files_above_the_documents_count_up_to_the_checkout(tmp_path: Path) -> None:
    documents = tmp_path / "checkout" / "docs" / "text"
    fill(documents, "a.txt", "drafts/b.txt", "c.log", "d.tmp")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "checkout" / ".git").mkdir()
    (tmp_path / "checkout" / ".gitignore").write_text("drafts/\n/docs/text/*.log\n*.tmp\n")
    (tmp_path / "checkout" / "docs" / ".gitignore").write_text("!text/d.tmp\n")
    assert ids(documents, gitignore=True) == ["a.txt", "d.tmp"]
