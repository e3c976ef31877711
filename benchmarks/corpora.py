"""Generated corpora for benchmarks."""

import random
from pathlib import Path

import yaml

WORDS = (
    "agreement party notice term clause renewal fee audit claim data breach tax wage visa lease "
    "rent deposit repair tenant owner supplier order invoice payment delay interest warranty "
    "defect delivery risk title insurance premium policy cover loss report deadline office"
).split()


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
    file = folder / "generated.yaml"
    attributes = {
        "corpus": "generated",
        "documents": {"path": "documents"},
        "store": "store",
        "chunkings": {"recursive": {"method": "recursive", "max_characters": 500}},
        "retrievers": {"hybrid": {"method": "hybrid"}},
        "configurations": [
            {
                "name": "one",
                "chunking": "recursive",
                "contextualizer": "none",
                "embedding": "minilm",
                "retriever": "hybrid",
            }
        ],
    }
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file
