"""Source code -> chunks of whole functions and types, as many neighbours as fit the size."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from rag_pipeline.chunking.recursive import CODE_LEVELS, Cuts, recursive_spans
from rag_pipeline.chunking.sizes import Limit
from rag_pipeline.datamodels import Span
from rag_pipeline.loading.code import Symbol


def code_spans(text: str, symbols: Sequence[Symbol], limit: Limit) -> list[Span]:
    """Return spans that cut no definition that fits the size.

    One over the size is cut between the definitions inside of it, and where there are none at
    blank lines, then lines. `symbols` stand in order, the outer ones first.
    """
    edges: list[list[int]] = []
    ends: list[int] = []
    for symbol in symbols:
        while ends and ends[-1] <= symbol.start:
            ends.pop()
        if len(edges) == len(ends):
            edges.append([])
        edges[len(ends)] += [symbol.start, symbol.end]
        ends.append(symbol.end)
    levels = (_at(sorted(set(depth))) for depth in edges)
    return recursive_spans(text, limit, levels=(*levels, *CODE_LEVELS))


def _at(offsets: Sequence[int]) -> Cuts:
    def cuts(text: str, start: int, end: int) -> Iterator[int]:
        yield from offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]

    return cuts
