"""Put the sample corpus of data/ into a wheel; everything else stands in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithSample(build_py):
    """Build the package with the sample corpus in it, as `rag_pipeline/sample`."""

    def run(self) -> None:
        """Copy the sample; an editable installation finds it in data/."""
        super().run()
        if not self.editable_mode:
            sample = Path(self.build_lib, "rag_pipeline", "sample")
            shutil.rmtree(sample, ignore_errors=True)
            shutil.copytree("data/documents", sample / "documents")
            shutil.copy("data/queries.jsonl", sample)


setup(cmdclass={"build_py": BuildWithSample})
