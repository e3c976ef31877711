"""Split a sequence into groups that fit a request, a file or a shard."""

from collections.abc import Iterable, Iterator, Sequence


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


def padded_groups(
    positions: Iterable[int], sizes: Sequence[int], most_size: int
) -> Iterator[list[int]]:
    """Yield positions in groups of at most `most_size` in total.

    All items of a group are padded to the size of its largest item, so each counts with this size.
    An item above `most_size` is a group of its own.
    """
    group: list[int] = []
    width = 0
    for position in positions:
        width = max(width, sizes[position])
        if group and (len(group) + 1) * width > most_size:
            yield group
            group, width = [], sizes[position]
        group.append(position)
    if group:
        yield group
