"""Offsets to pages and boxes, there and back."""

from rag_pipeline.loading.page_map import Box, PageMap

MAP = PageMap(
    (0, 10, 25),
    (Box(1, 72, 80, 300, 92), Box(2, 72, 80, 301, 92), Box(1, 72, 700, 200, 710)),
    ((612.0, 792.0), (792.0, 612.0)),
)


def test_a_span_has_the_pages_and_boxes_of_the_lines_it_touches():
    assert [MAP.page_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [1, 1, 2, 2, 1, 1]
    assert MAP.pages(5, 12) == (1, 2)
    assert MAP.pages(10, 25) == (2,)
    assert MAP.within(9, 11) == MAP.boxes[:2]


def test_a_packed_map_is_the_same_map():
    assert PageMap.from_bytes(MAP.to_bytes()) == MAP
