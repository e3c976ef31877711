"""Find documents with the same content."""

from collections import defaultdict
from collections.abc import Iterable


def duplicate_groups(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Group the ids with the same content hash, from (document_id, content_hash) pairs.

    Return sorted groups of at least two; an unknown hash ("") is ignored.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for document_id, content_hash in pairs:
        if content_hash:
            groups[content_hash].append(document_id)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)
