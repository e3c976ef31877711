"""Define configurations (one variant per stage) and the keys of their partitions."""

from functools import cached_property
from typing import Literal, get_args

from rag_pipeline.config.settings import Name, Settings

KeyLevel = Literal["chunking", "contextualizer", "embedding", "configuration"]
"""The last stage that an asset depends on, or `configuration`. It sets the asset's partitions."""
LEVELS: tuple[KeyLevel, ...] = get_args(KeyLevel)


class Key(str):
    """The key of a partition. The string is its name in the store and in Dagster.

    The name is `chunking`, `chunking.contextualizer`, `chunking.contextualizer.embedding` or a
    configuration's name. It is "" for an asset without partitions. A configuration's key also holds
    its variants.
    """

    chunking: str
    contextualizer: str
    embedding: str
    configuration: str
    _parts: dict[KeyLevel, str]
    _shortened: dict[KeyLevel | None, "Key"]

    def __new__(
        cls,
        chunking: str = "",
        contextualizer: str = "",
        embedding: str = "",
        configuration: str = "",
    ) -> "Key":
        """Return the key of a configuration, or of the variants of its first stages."""
        parts = (chunking, contextualizer, embedding)
        key = super().__new__(cls, configuration or ".".join(part for part in parts if part))
        key.chunking, key.contextualizer, key.embedding = parts
        key.configuration = configuration
        key._parts = dict(zip(LEVELS, (*parts, configuration), strict=True))
        key._shortened = {}
        return key

    @classmethod
    def parse(cls, partition: str) -> "Key":
        """Return the key of a partition that is named by its variants, or of the partition "".

        Raise ValueError for any other name. `Configuration.key` is the key of a configuration.
        """
        if isinstance(partition, Key):
            return partition
        parts = partition.split(".") if partition else []
        if len(parts) >= len(LEVELS) or not all(parts):
            raise ValueError(f"{partition!r} is not chunking[.contextualizer[.embedding]]")
        return cls(*parts)

    @property
    def variants(self) -> tuple[str, ...]:
        """Return the names of the key's variants, in the order of the stages."""
        return tuple(p for p in (self.chunking, self.contextualizer, self.embedding) if p)

    @property
    def level(self) -> KeyLevel | None:
        """Return the key's last level, or None if the key is empty."""
        return next((level for level in reversed(LEVELS) if self._parts[level]), None)

    def at(self, level: KeyLevel | None) -> "Key":
        """Return the key up to a level. Raise ValueError if the key lacks this level."""
        if level not in self._shortened:
            parts = [self._parts[n] for n in LEVELS[: LEVELS.index(level) + 1]] if level else []
            if not all(parts):
                raise ValueError(f"{str(self)!r} names no {level}")
            self._shortened[level] = Key(*parts)
        return self._shortened[level]


STAGES = ("chunking", "contextualizer", "embedding", "retriever", "reranker")


class _Choices(Settings):
    def variant(self, stage: str) -> str:
        """Return the name of the chosen variant of `stage`, one of the STAGES."""
        return str(dict(self)[stage])


class ConfigurationRule(_Choices):
    """An entry of `configurations`: a variant per stage. `*` means every variant."""

    name: Name | None = None
    chunking: str
    contextualizer: str = "none"
    embedding: str
    retriever: str
    reranker: str = "none"


class Configuration(_Choices):
    """A named choice of one variant per stage. The evaluation compares configurations."""

    name: str
    chunking: str
    contextualizer: str
    embedding: str
    retriever: str
    reranker: str

    @cached_property
    def key(self) -> Key:
        """Return the partition of this configuration's own assets."""
        return Key(self.chunking, self.contextualizer, self.embedding, self.name)

    @property
    def context_key(self) -> Key:
        """Return the partition of the contextualized chunks and the lexical index."""
        return self.key.at("contextualizer")

    @property
    def vector_key(self) -> Key:
        """Return the partition of the vector index."""
        return self.key.at("embedding")
