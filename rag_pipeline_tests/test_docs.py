"""Every command line in README.md, docs/ and the commands' own help is understood by the parser."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

from rag_pipeline.cli.main import app
from rag_pipeline.config import parse_config
from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline_tests.testing.corpora import attributes

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "data/README.md"),
    ROOT / "rag_pipeline/skill/SKILL.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
_COMMAND = re.compile(r"(?:^|\s)rag (?P<arguments>.+)$")
_RAG: Any = get_command(app)
_EXAMPLE = tomllib.loads((ROOT / "examples/plugin/pyproject.toml").read_text())
_OF_THE_EXAMPLE = _EXAMPLE["project"]["entry-points"]["rag_pipeline.commands"]
"""Commands that are there once the example is installed; its own test runs them."""


def blocks(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `rag` in the code blocks of a page."""
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = _COMMAND.search(line)
            if found:
                yield shlex.split(found["arguments"], comments=True)


def mentions(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `rag …` within the lines of a page."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for found in re.findall(r"`rag ([^`]+)`", prose):
        yield shlex.split(" ".join(found.replace("[", " ").replace("]", " ").split()))


def examples() -> Iterator[list[str]]:
    """Yield the arguments of each example in the commands' help."""

    def helps(command: Any) -> Iterator[str]:
        yield command.help or ""
        for below in below_of(command).values():
            yield from helps(below)

    for text in helps(_RAG):
        for line in text.splitlines():
            found = re.match(r" *(?:RAG_TOKEN=\S+ )?rag (.+)$", line)
            if found:
                yield shlex.split(found[1])


def below_of(command: Any) -> dict[str, Any]:
    """Return the commands of a group, those that entry points name too."""
    if not hasattr(command, "commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def parse(arguments: list[str], whole: bool = True) -> None:
    """Parse a command line and run nothing; raise a usage error for a mistake.

    Without `whole`, arguments may be missing.
    """
    command, rest = _RAG, list(arguments)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name.isupper() or name in _OF_THE_EXAMPLE:  # COMMAND means any command
            return
        below = below_of(command)
        if name not in below and hasattr(command, "default"):
            rest, name = [name, *rest], command.default
        assert name in below, f"rag {shlex.join(arguments)}: no command {name!r}"
        command = below[name]
    if rest in (["--help"], ["--version"]):
        return
    command.make_context(command.name, rest, resilient_parsing=not whole and not rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages(page: Path) -> None:
    text = page.read_text()
    for arguments in blocks(text):
        parse(arguments)
    for arguments in mentions(text):
        parse(arguments, whole=False)


def test_the_examples_of_help() -> None:
    found = list(examples())
    assert len(found) > 30
    for arguments in found:
        parse(arguments)


def test_commands_are_found_in_pages() -> None:
    text = "Say `rag plan [--json]`.\n```\nX=$(id) rag search 'a b' \\\n  c  # why\n```\n"
    assert list(blocks(text)) == [["search", "a b", "c"]]
    assert list(mentions(text)) == [["plan", "--json"]]
    assert len(list(blocks((ROOT / "README.md").read_text()))) > 5


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    build = ("build", "--quiet", "-f", "deploy/site/mkdocs.yml", "-d", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *build],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "reference/commands.html").read_text()
    assert "Index, evaluate" in commands and "import-release" in commands
    assert "serve_metric" in (tmp_path / "reference/settings.html").read_text()
    assert "Return the k best chunks" in (tmp_path / "reference/python.html").read_text()
    assert len((tmp_path / "llms.txt").read_text().splitlines()) > 10
    pages = [page.read_text() for page in tmp_path.rglob("*.html")]
    assert not [p for p in pages if re.search(r"<(script|link|img)[^>]*(src|href)=.?https?:", p)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_in_the_pages_are_valid(page: Path) -> None:
    """Add each block of settings to a small corpus file. Blocks of other files must be YAML."""
    known = {
        "chats": {"mini": {"provider": "openai", "model": "gpt-4o-mini"}},
        "embeddings": {"minilm": {"provider": "minilm"}},
        "rerankers": {"none": {"method": "none"}},
    }
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        written = yaml.safe_load(block) or {}
        written = written.get("attributes", written)
        if set(written) <= set(CorpusConfig.model_fields):
            settings: dict[str, Any] = attributes(**known)
            for name, value in written.items():
                base = settings.get(name)
                both = isinstance(value, dict) and isinstance(base, dict)
                settings[name] = {**base, **value} if both else value
            parse_config(settings)
