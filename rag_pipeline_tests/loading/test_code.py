"""Source code: definitions, chunks, and the places of passages."""

from pathlib import Path

import pytest

from rag_pipeline import indexing
from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.markdown import MarkdownChunking
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.errors import MissingExtraError
from rag_pipeline.indexing import code_warning, read_documents
from rag_pipeline.loading.code import find_symbols
from rag_pipeline_tests.testing.scanning import at, load, without_module, workspace_of

PYTHON = '''\
"""Rätsel."""
import os

# Says hello.
@decorated
def hello(name):
    # a comment
    return name


class Shop:
    """Sells."""

    def open(self):
        return "ö"

    # About closing.
    async def close(self):
        return None
'''

SOURCES = {
    ".py": (PYTHON, ["hello", "Shop", "Shop.open", "Shop.close"]),
    ".ts": (
        "/** Adds. */\nexport const add = (a: number) => a;\n"
        "export default class Foo { run() { return 1 } }\ninterface Shape { area: number }\n",
        ["add", "Foo", "Foo.run", "Shape"],
    ),
    ".jsx": (
        "class C extends Base { render() { return <p>hi</p> } }\nlet x = 1;\n",
        ["C", "C.render"],
    ),
    ".java": (
        "public class A { A() {} @Override public String toString() { return null; } enum E {X} }",
        ["A", "A.A", "A.toString", "A.E"],
    ),
    ".go": (
        "package m\ntype Server struct { a int }\nfunc (s *Server) Start() error { return nil }\n",
        ["Server", "Server.Start"],
    ),
    ".rs": (
        "/// A point.\n#[derive(Debug)]\nstruct P { x: i32 }\nimpl Show for P { fn show() {} }\n",
        ["P", "P", "P::show"],
    ),
    ".cpp": (
        "namespace n { class A { ~A() {} }; }\ntemplate <class T> T *g(T &a) { return &a; }\n"
        "int &A::h() { return x; }\nstruct later;\n",
        ["n", "n::A", "n::A::~A", "g", "A::h"],
    ),
    ".c": (
        "static char *name(struct s *a) { return 0; }\nstruct point { int x; };\n",
        ["name", "point"],
    ),
    ".cs": ("namespace A.B { class C { int M(int a) => 1; } }", ["A.B", "A.B.C", "A.B.C.M"]),
    ".rb": ("module M\n class A\n  def self.make; end\n end\nend\n", ["M", "M::A", "M::A::make"]),
    ".php": ("<?php\nclass A { public function b() {} }\nfunction c() {}\n", ["A", "A::b", "c"]),
    ".sh": ("f() { echo; }\nfunction g { echo; }\n", ["f", "g"]),
}


@pytest.mark.parametrize("suffix", SOURCES)
def test_definitions_are_found_with_their_qualified_names(suffix: str) -> None:
    text, names = SOURCES[suffix]
    assert [symbol.name for symbol in find_symbols(text, suffix)] == names


def test_a_definition_begins_with_the_comments_and_decorators_above_it() -> None:
    found = {name: PYTHON[start:end] for start, end, name in find_symbols(PYTHON, ".py")}
    assert found["hello"].startswith("# Says hello.\n@decorated\ndef hello")
    assert found["hello"].endswith("return name")
    assert found["Shop.close"].startswith("# About closing.\n    async def close")
    rust, _ = SOURCES[".rs"]
    start, end, _ = find_symbols(rust, ".rs")[0]
    assert rust[start:end].startswith("/// A point.\n#[derive")


def test_broken_code_is_read_as_far_as_possible() -> None:
    broken = "def b():\n  pass\n\ndef a(:\n  (((\n"
    assert [symbol.name for symbol in find_symbols(broken, ".py")] == ["b"]
    assert find_symbols("", ".py") == []
    assert find_symbols("{" * 20_000, ".cpp") == []


def test_no_chunk_splits_a_definition_that_fits(tmp_path: Path) -> None:
    text = PYTHON.replace("\n", "\r\n")
    document = load(tmp_path / "shop.py", text)
    assert (document.text, document.title) == (text, "shop.py")
    for settings in (
        RecursiveChunking(method="recursive", max_characters=130),
        MarkdownChunking(method="markdown", max_characters=130),
    ):
        first, shop, close = [c.text for c in chunk(document, settings)]
        assert (first.startswith('"""R'), first.endswith("return name")) == (True, True)
        assert (shop.startswith("class Shop"), shop.endswith('"ö"')) == (True, True)
        assert close.startswith("# About closing.")
    small = RecursiveChunking(method="recursive", max_characters=64)
    assert 'class Shop:\r\n    """Sells."""' in [c.text for c in chunk(document, small)]


def test_a_passage_names_its_function_and_line(tmp_path: Path) -> None:
    document = load(tmp_path / "shop.py", PYTHON)
    place = at(document, 'return "ö"')
    assert (place.label, place.section, place.line) == ("Shop.open, line 15", "Shop.open", 15)
    assert at(document, '"""').label == "line 1"


def test_code_read_without_the_extra_is_read_again_with_it(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "shop.py").write_text(PYTHON)
    workspace = workspace_of(tmp_path)
    with without_module("tree_sitter"):
        indexing.update_documents(workspace)
        (read,) = read_documents(workspace, ["shop.py"])
        assert at(read, "return None").section == ""
        assert str(MissingExtraError("", "code")).partition("run: ")[2] in code_warning(workspace)
        assert indexing.plan_documents(workspace).is_current
    plan = indexing.plan_documents(workspace)
    assert plan.why.endswith("the extra 'code' was missing and is installed now")
    indexing.update_documents(workspace)
    (read,) = read_documents(workspace, ["shop.py"])
    assert at(read, "return None").section == "Shop.close"
    assert (code_warning(workspace), indexing.plan_documents(workspace).is_current) == ("", True)
