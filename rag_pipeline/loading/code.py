"""Find the definitions in source code: functions, methods and types with qualified names.

tree-sitter parses the code, even if it has errors. The text stays unchanged.
"""

import importlib
import json
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from rag_pipeline.datamodels import Document, MetadataValue
from rag_pipeline.loading.text import one_line

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SYMBOLS = "code_symbols"
"""The metadata field that holds a document's definitions."""
_MAX_NAME = 200
_MAX_SYMBOLS = 20_000


class _Language(NamedTuple):
    media_type: str
    module: str
    grammar: str = "language"
    between: str = "."


_PYTHON = _Language("text/x-python", "tree_sitter_python")
# TypeScript's grammar with JSX also reads JavaScript.
_SCRIPT = _Language("text/javascript", "tree_sitter_typescript", "language_tsx")
_TYPED = _Language("text/x-typescript", "tree_sitter_typescript", "language_typescript")
_TSX = _SCRIPT._replace(media_type="text/x-typescript")
_C = _Language("text/x-c++", "tree_sitter_cpp", between="::")
_LANGUAGES = {
    **dict.fromkeys((".py", ".pyi"), _PYTHON),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _SCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPED),
    ".tsx": _TSX,
    ".java": _Language("text/x-java", "tree_sitter_java"),
    ".go": _Language("text/x-go", "tree_sitter_go"),
    ".rs": _Language("text/x-rust", "tree_sitter_rust", between="::"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp"), _C),
    ".cs": _Language("text/x-csharp", "tree_sitter_c_sharp"),
    ".rb": _Language("text/x-ruby", "tree_sitter_ruby", between="::"),
    ".php": _Language("text/x-php", "tree_sitter_php", "language_php", "::"),
    **dict.fromkeys((".sh", ".bash"), _Language("text/x-sh", "tree_sitter_bash")),
}
CODE_SUFFIXES = {suffix: language.media_type for suffix, language in _LANGUAGES.items()}
"""Media types of source code, by suffix."""

_DEFINITIONS = frozenset(
    """function_definition class_definition
    function_declaration generator_function_declaration class_declaration method_definition
    abstract_class_declaration interface_declaration type_alias_declaration enum_declaration
    internal_module
    record_declaration annotation_type_declaration method_declaration constructor_declaration
    type_spec
    function_item struct_item enum_item union_item trait_item impl_item mod_item macro_definition
    class_specifier struct_specifier union_specifier enum_specifier namespace_definition
    struct_declaration namespace_declaration
    class module method singleton_method trait_declaration""".split()
)
_VARIABLES = ("variable_declarator", "public_field_definition")
_FUNCTIONS = ("arrow_function", "function_expression", "generator_function", "class")
_AROUND = frozenset(
    """decorated_definition export_statement template_declaration type_declaration
    lexical_declaration variable_declaration""".split()
)
"""Nodes that belong to the definition inside them, if they have no other definition."""


class Symbol(NamedTuple):
    """A definition with its qualified name. Its span includes the comments directly above it."""

    start: int
    end: int
    name: str


def symbols_of(document: Document) -> list[Symbol]:
    """Return a document's definitions, outer before inner, or [] if the document is not code."""
    stored = document.metadata.get(SYMBOLS)
    if not isinstance(stored, str) or document.media_type not in CODE_SUFFIXES.values():
        return []
    return [Symbol(*one) for one in json.loads(stored)]


def symbols_metadata(text: str, suffix: str) -> dict[str, MetadataValue]:
    """Return the metadata that `symbols_of` reads, or {} if the text has no definitions."""
    found = find_symbols(text, suffix)
    return {SYMBOLS: json.dumps(found, separators=(",", ":"))} if found else {}


def find_symbols(text: str, suffix: str) -> list[Symbol]:
    """Return the first 20,000 definitions of a source text. `suffix` decides the language.

    Offsets count code points. The extra `code` must be installed.
    """
    raw = text.encode()
    named = list(_definitions(raw, _LANGUAGES[suffix]))[:_MAX_SYMBOLS]
    if len(raw) == len(text):
        return named
    # For each byte, the number of characters that start before it.
    offsets = list(accumulate(((byte & 0xC0) != 0x80 for byte in raw), initial=0))
    return [Symbol(offsets[start], offsets[end], name) for start, end, name in named]


@cache
def _parser(language: _Language) -> "Parser":
    from tree_sitter import Language, Parser

    grammar = getattr(importlib.import_module(language.module), language.grammar)
    return Parser(Language(grammar()))


def _definitions(raw: bytes, language: _Language) -> Iterator[Symbol]:
    """Yield the definitions in the order of the source, with byte offsets."""
    pending = [(_parser(language).parse(raw).root_node, "")]
    while pending:
        node, path = pending.pop()
        if (node.type in _DEFINITIONS or node.type in _VARIABLES) and (name := _name(node)):
            path = language.between.join(filter(None, (path, name)))[:_MAX_NAME]
            whole = _whole(node)
            yield Symbol(_above(whole, raw), whole.end_byte, path)
        pending += [(child, path) for child in reversed(node.named_children)]


def _name(node: "Node") -> str:
    if node.type in _VARIABLES:
        value = node.child_by_field_name("value")
        if value is None or value.type not in _FUNCTIONS:
            return ""
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return ""  # a reference, not a definition
    named = node.child_by_field_name("type" if node.type == "impl_item" else "name")
    if named is None:
        named = _declared(node)
    receiver = node.child_by_field_name("receiver")
    name = _text(named)
    if receiver is not None and name:  # a method in Go
        of = [_text(one.child_by_field_name("type")).lstrip("*") for one in receiver.named_children]
        name = ".".join([*of[:1], name])
    return name


def _declared(node: "Node") -> "Node | None":
    """Return the node of the name in C declarators, such as f in `*f(int)`, or None."""
    found = None
    while node is not None:
        inner = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if child.type.endswith("declarator")), None
        )
        found, node = (inner or found), inner  # type: ignore[assignment]
    return found


def _text(node: "Node | None") -> str:
    return one_line(node.text.decode(errors="replace")) if node and node.text else ""


def _whole(node: "Node") -> "Node":
    """Return the node of a definition with its decorators, `export` or `template <>`."""
    while (around := node.parent) is not None and around.type in _AROUND:
        inside = [c for c in around.named_children if c.type in _DEFINITIONS | {*_VARIABLES}]
        if len(inside) > 1:
            break
        node = around
    return node


def _above(node: "Node", raw: bytes) -> int:
    """Return the byte offset of the comments and attributes directly above, or else of the node."""
    first = node
    while (before := first.prev_named_sibling) is not None:
        line = raw.rfind(b"\n", 0, before.start_byte) + 1
        is_own_line = not raw[line : before.start_byte].strip()
        is_about = "comment" in before.type or before.type == "attribute_item"
        if not (is_about and is_own_line and before.end_point.row >= first.start_point.row - 1):
            break
        first = before
    return first.start_byte


def symbol_at(symbols: list[Symbol], offset: int) -> str:
    """Return the name of the innermost definition around an offset, or "" if there is none."""
    last = bisect_right(symbols, offset, key=lambda symbol: symbol.start)
    return next((s.name for s in reversed(symbols[:last]) if offset < s.end), "")
