"""Corpora that several benchmarks build, and the options that choose them."""

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

import rag_pipeline
from rag_pipeline.config import load_config

SAMPLE = Path(rag_pipeline.__file__).parent / "defs" / "sample" / "defs.yaml"
WORDS = (
    "agreement party notice term clause renewal fee audit claim data breach tax wage visa lease "
    "rent deposit repair tenant owner supplier order invoice payment delay interest warranty "
    "defect delivery risk title insurance premium policy cover loss report deadline office"
).split()


def set_options(what: str | None, names: Collection[str] = ()) -> argparse.ArgumentParser:
    """Return a parser of where data sets are, which of them to take, and where to build."""
    parser = argparse.ArgumentParser(description=what)
    here = Path(__file__).parents[2] / "shared" / "data"
    data = Path(os.environ.get("RAG_PIPELINE_DATA", here))
    parser.add_argument("--data", type=Path, default=data)
    if names:
        parser.add_argument("--sets", nargs="*", default=list(names), choices=list(names))
    parser.add_argument("--work", type=Path, help="keep what is built in this folder")
    return parser


@contextmanager
def working(parser: argparse.ArgumentParser) -> Iterator[argparse.Namespace]:
    """Yield the options; `work` is a folder that passes unless one was named."""
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        arguments.work = arguments.work or Path(passing)
        arguments.work.mkdir(parents=True, exist_ok=True)
        yield arguments


def write_corpus(folder: Path, name: str, **attributes: Any) -> Path:
    """Write the file of a corpus whose documents and store are in its folder; return the file."""
    places = {"corpus": name, "documents": {"path": "documents"}, "store": "store"}
    content = {"type": "rag_pipeline.RagPipeline", "attributes": {**places, **attributes}}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def write_sample(work: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """Write the sample corpus with a store of its own; return its file."""
    config = load_config(SAMPLE)
    content = yaml.safe_load(SAMPLE.read_text())
    attributes = content["attributes"]
    attributes["documents"]["path"] = str(config.documents_path)
    attributes |= {"queries": str(config.queries_path), "store": str(work / "store")}
    change(attributes)
    file = work / "sample.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def write_generated(folder: Path, documents: int, paragraphs: int, words: int) -> Path:
    """Write a corpus of distinct paragraphs and its corpus file; return the file."""
    chance = random.Random(documents)
    (folder / "documents").mkdir(parents=True)
    for number in range(documents):
        text = "\n\n".join(
            f"{number}.{p} " + " ".join(chance.choices(WORDS, k=words)) + "."
            for p in range(paragraphs)
        )
        (folder / "documents" / f"{number:06d}.txt").write_text(text)
    one = {"chunking": "recursive", "contextualizer": "none", "retriever": "hybrid"}
    return write_corpus(
        folder,
        "generated",
        chunkings={"recursive": {"method": "recursive", "max_characters": 500}},
        retrievers={"hybrid": {"method": "hybrid"}},
        configurations=[{"name": "one", "embedding": "minilm", **one}],
    )
