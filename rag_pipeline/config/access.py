"""Define which callers may see a document: rules by path, a metadata value, and a default."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from rag_pipeline.config.settings import Settings
from rag_pipeline.datamodels import OPERATOR, Caller

Label = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^,\[\]*\x00-\x1f]+$")]
"""A name without comma, bracket or asterisk, such as `hr` or `Domain Users`."""
Labels = Literal["public"] | tuple[Label, ...]
"""A caller must have one of the labels. An empty list hides a document from all callers."""


class AccessRule(Settings):
    """The `labels` of documents with a path that matches one of the glob patterns in `match`."""

    match: str | tuple[str, ...] = Field(min_length=1)
    labels: Labels


class Access(Settings):
    """The labels of documents: of the first matching rule, or else of metadata, or else `default`.

    `metadata` names a sidecar column or a field of the document's own metadata. Its value is a list
    of labels, or labels separated by commas. An invalid value hides the document from all callers.
    """

    default: Labels
    metadata: str | None = None
    rules: tuple[AccessRule, ...] = ()

    def of(self, document_id: str, metadata: Mapping[str, Any]) -> frozenset[str]:
        """Return the labels of a document. Patterns match the path of its file and its id."""
        path = document_id
        folder = str(metadata.get("folder", "") or "")
        if "folder" in metadata and str(PurePosixPath(path).parent) != (folder or "."):
            # A record sets its own id. The id must not place the record in another folder.
            path = f"{folder}/{path.replace('/', ':')}".removeprefix("/")
        for patterns, labels in self._matchers:
            if patterns.match(path):
                return labels
        value = metadata.get(self.metadata) if self.metadata else None
        return read_labels(self.default) if value in (None, "") else read_labels(value)

    @cached_property
    def _matchers(self) -> list[tuple[Any, frozenset[str]]]:
        from wcmatch import glob

        flags = glob.GLOBSTAR | glob.CASE | glob.FORCEUNIX | glob.DOTGLOB
        made = []
        for rule in self.rules:
            patterns = [rule.match] if isinstance(rule.match, str) else rule.match
            plain = ["/".join(s for s in p.split("/") if s not in ("", ".")) for p in patterns]
            made.append((glob.compile(plain, flags=flags), read_labels(rule.labels)))
        return made


def read_caller(labels: str | None) -> Caller:
    """Return the caller with these comma-separated labels. None and `*` mean all labels."""
    return OPERATOR if labels in (None, "*") else Caller(read_labels(labels))


def read_labels(value: Any) -> frozenset[str]:
    """Return the labels in a list, a JSON list or comma-separated text, or none for other types."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return frozenset()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        return frozenset()
    return frozenset(one.strip() for one in value if one.strip())
