"""The partition key: the variants that an asset depends on, or its configuration."""

from typing import Literal, get_args

KeyLevel = Literal["chunking", "contextualizer", "embedding", "configuration"]
"""An asset's partitioning: the last stage that it depends on, or the configuration."""
LEVELS: tuple[KeyLevel, ...] = get_args(KeyLevel)


class Key(str):
    """One partition. The string is its name in the store and in Dagster.

    The name is `chunking`, `chunking.contextualizer`, `chunking.contextualizer.embedding`, a
    configuration's name, or "" without partitions. A configuration's key also holds its variants.
    """

    chunking: str
    contextualizer: str
    embedding: str
    configuration: str
    _parts: dict[KeyLevel, str]

    def __new__(
        cls,
        chunking: str = "",
        contextualizer: str = "",
        embedding: str = "",
        configuration: str = "",
    ) -> "Key":
        """Join the parts; a later part needs all earlier ones."""
        parts = (chunking, contextualizer, embedding)
        key = super().__new__(cls, configuration or ".".join(part for part in parts if part))
        key.chunking, key.contextualizer, key.embedding = parts
        key.configuration = configuration
        key._parts = dict(zip(LEVELS, (*parts, configuration), strict=True))
        return key

    @classmethod
    def parse(cls, partition: str) -> "Key":
        """Return the key of a partition of variants; raise ValueError for another string.

        `Configuration.key` gives the key of a configuration.
        """
        if isinstance(partition, Key):
            return partition
        parts = partition.split(".") if partition else []
        if len(parts) >= len(LEVELS) or not all(parts):
            raise ValueError(f"{partition!r} is not chunking[.contextualizer[.embedding]]")
        return cls(*parts)

    @property
    def variants(self) -> tuple[str, ...]:
        """Return the names of the variants, one per stage."""
        return tuple(p for p in (self.chunking, self.contextualizer, self.embedding) if p)

    @property
    def level(self) -> KeyLevel | None:
        """Return the level of the key's assets, None without partitions."""
        return next((level for level in reversed(LEVELS) if self._parts[level]), None)

    def at(self, level: KeyLevel | None) -> "Key":
        """Return the key at this level or an earlier one; raise ValueError for a later one."""
        parts = [self._parts[name] for name in LEVELS[: LEVELS.index(level) + 1]] if level else []
        if not all(parts):
            raise ValueError(f"{str(self)!r} names no {level}")
        return Key(*parts)
