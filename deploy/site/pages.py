"""MkDocs hooks: make the tutorial of README.md, the reference of the code, and llms.txt."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer import Context
from typer.main import get_command

from rag_pipeline.cli.main import app
from rag_pipeline.config.schema import corpus_schema

ROOT = Path(__file__).parents[2]
_PUBLIC = ("Corpus", "RagPipeline", "Caller", "datamodels", "errors")
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```", re.MULTILINE | re.DOTALL)
_GRAPH = "![The assets of a corpus](images/dagster-graph.png)"
"""The tutorial's diagram: a browser draws Mermaid only with a script from elsewhere."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of README.md and of the code."""
    python = "\n\n".join(f"::: rag_pipeline.{name}" for name in _PUBLIC)
    made = {
        "index.md": _DIAGRAM.sub(_GRAPH, (ROOT / "README.md").read_text(encoding="utf-8")),
        "reference/commands.md": "# Commands\n\n" + "\n\n".join(_commands(get_command(app), "rag")),
        "reference/settings.md": "# Settings of a corpus file\n\n" + "\n\n".join(_settings()),
        "reference/python.md": f"# Python\n\n{python}\n",
    }
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site, and name the files that are not part of it."""
    folder = "." if page.file.src_uri == "index.md" else "docs"

    def replaced(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        uri = path.removeprefix("docs/")
        if files.get_file_from_path(uri) is not None:
            return f"[{text}]({uri}{anchor or ''})"
        return f"{text} (`{path}`)" if (ROOT / path).exists() else link[0]

    return markdown if "/" in page.file.src_uri else _LINK.sub(replaced, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: the title and the address of each page, in the order of the navigation."""
    lines = ["# rag_pipeline", "", "> Turns raw documents into an evaluated, released RAG index."]
    for entry in config.nav or ():
        ((section, pages),) = entry.items()
        listed = [{section: pages}] if isinstance(pages, str) else pages
        lines += ["", f"## {section}", ""]
        for page in listed:
            ((title, uri),) = page.items()
            lines.append(f"- [{title}]({uri.removesuffix('.md')}.html)")
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _commands(command: Any, name: str) -> Iterator[str]:
    """Yield the help of a command and of each command below it."""
    context = Context(command, info_name=name)
    yield f"## {name}\n\n```text\n{command.get_help(context)}\n```"
    for below in command.list_commands(context) if hasattr(command, "commands") else ():
        yield from _commands(command.get_command(context, below), f"{name} {below}")


def _settings() -> Iterator[str]:
    """Yield a section per part of the corpus file's JSON Schema."""
    schema = corpus_schema()
    parts = {"attributes": schema["properties"]["attributes"], **schema["$defs"]}
    for name, part in parts.items():
        yield f"## {name}\n\n{part.get('description', '')}"
        rows = [
            f"| `{key}` | {_type(value)} | {_default(key, value, part)} |"
            for key, value in part.get("properties", {}).items()
        ]
        if rows:
            yield "\n".join(["| setting | type | default |", "|---|---|---|", *rows])


def _default(key: str, value: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    return "required" if key in part.get("required", ()) else f"`{value.get('default')}`"


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in value:
            return " or ".join(_type(one) for one in value[choice])
    if "enum" in value or "const" in value:
        return ", ".join(f"`{one}`" for one in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}"
    return str(value.get("type", "any"))
