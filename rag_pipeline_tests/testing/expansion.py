"""An assistant that looks outside of its corpus."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, ExpandedCorpus, ReleasedCorpus, sentence_vectors
from rag_pipeline.config import Expansion

QUESTION = "How much does a work visa for Norway cost?"
ANSWER = "A work visa for Norway costs 540 euros and takes eight weeks."
OUTSIDE = {
    "visa/norway.md": f"# Visas\n\n{ANSWER}\n",
    "fruit.txt": "Bananas are yellow and grow in bunches.\n",
}


@dataclass
class Clock:
    """The time, as a test sets it."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Expanded:
    """An assistant over a copy of the released corpus, with a folder to look in."""

    corpus: Corpus
    outside: Path
    clock: Clock = field(default_factory=Clock)

    def assistant(self, **settings: Any) -> Assistant:
        look_in = {"source": "folder", "path": str(self.outside)}
        expansion = Expansion.model_validate({"look_in": look_in, **settings})
        expanded = ExpandedCorpus(self.corpus, expansion, self.clock)
        return Assistant(
            corpora={self.corpus.name: ReleasedCorpus(self.corpus)},
            settings=self.corpus.config.assistant,
            reader=sentence_vectors,
            expansions={self.corpus.name: expanded},
        )
