"""Split a sequence into groups that fit a request, a file or a shard."""

from collections.abc import Iterable, Iterator


def groups(sizes: Iterable[int], most: int, most_size: int | None) -> Iterator[list[int]]:
    """Yield positions in order, in groups of at most `most` items and `most_size` in total.

    An item above `most_size` is a group of its own.
    """
    group: list[int] = []
    total = 0
    for position, size in enumerate(sizes):
        full = most_size is not None and total + size > most_size
        if group and (len(group) >= most or full):
            yield group
            group, total = [], 0
        group.append(position)
        total += size
    if group:
        yield group
