"""Models of a chunking method without a corpus, whose vectors come from a function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_pipeline.chunking import NoCorpus
from rag_pipeline.datamodels import Vectors


@dataclass
class Embedding(NoCorpus):
    embed: Callable[[Sequence[str]], Vectors]

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        return self.embed(texts)
