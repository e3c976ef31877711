"""Corpora that several benchmarks build."""

import random
from collections.abc import Callable
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
