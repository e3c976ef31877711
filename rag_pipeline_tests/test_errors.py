"""Hints in errors can be run as they stand."""

import importlib.metadata
import json
import shlex
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rag_pipeline import errors
from rag_pipeline.errors import MissingExtraError

ROOT = Path(errors.__file__).parents[1]


def command(extra: str) -> list[str]:
    message = str(MissingExtraError("a-package", extra))
    assert message.startswith("a-package is not installed; run: ")
    words = shlex.split(message.partition("run: ")[2])
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    return words[4:]


def test_of_a_checkout_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("serve") == ["-c", f"{ROOT}/constraints.txt", "-e", f"{ROOT}[serve]"]
    monkeypatch.chdir(ROOT)
    assert command("serve") == ["-c", "constraints.txt", "-e", ".[serve]"]


def test_of_a_wheel_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = install_from(tmp_path, monkeypatch)
    wheel.touch()
    assert command("serve") == [f"{wheel}[serve]"]


def install_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the package from a file with a blank in its name, as pip records it."""
    installed, wheel = folder / "site-packages", folder / "a b.whl"
    record = installed / "rag_pipeline-0.1.0.dist-info"
    record.mkdir(parents=True)
    own = str(importlib.metadata.metadata("rag_pipeline"))
    (record / "METADATA").write_text(own, "utf-8")
    (record / "direct_url.json").write_text(json.dumps({"url": wheel.as_uri()}))
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(errors, "__file__", str(installed / "rag_pipeline/errors.py"))
    return wheel


def test_of_a_wheel_that_is_gone_its_requirements_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(tmp_path, monkeypatch)
    names = {extra: {Requirement(r).name for r in command(extra)} for extra in ("serve", "celery")}
    assert names["serve"] == {"fastmcp", "joserfc", "prometheus-client", "sse-starlette", "uvicorn"}
    # What an extra takes from another one is listed, too.
    assert names["celery"] == {"dagster-celery", "redis", "dagster-postgres", "psycopg2-binary"}
    assert "fastmcp<5,>=4.1" in command("serve")
