"""Packages of plugins, installed in a folder, and commands run with them."""

import os
import subprocess
from pathlib import Path

from rag_pipeline_tests.testing.forked import run

ROOT = Path(__file__).parents[2]


def write_package(site: Path, package: str, points: str, code: str) -> None:
    """Install a package of one module, whose entry points are written as in entry_points.txt."""
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


def rag(site: Path | None, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with what is installed in a folder, or without."""
    path = os.pathsep.join(str(p) for p in (site, ROOT) if p)
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return run("from rag_pipeline.cli import main; main()", *arguments, env=environment)


def done(site: Path, *arguments: str | Path) -> str:
    """Return what a command prints that must succeed."""
    ran = rag(site, *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
