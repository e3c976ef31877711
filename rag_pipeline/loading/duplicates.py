"""Documents of the same content under several names."""

from collections import defaultdict
from collections.abc import Iterable


def duplicate_groups(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Group the document_ids that share a content hash, from (document_id, content_hash) pairs.

    Only groups of two and more, sorted; an unknown hash ("") groups nothing.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for document_id, content_hash in pairs:
        if content_hash:
            groups[content_hash].append(document_id)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)
