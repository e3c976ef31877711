"""Offsets to pages and boxes, there and back."""

from rag_pipeline.loading.page_map import Box, PageMap

MAP = PageMap(
    (0, 10, 25),
    (Box(1, 72, 80, 300, 92), Box(2, 72, 80, 301, 92), Box(1, 72, 700, 200, 710)),
    ((612.0, 792.0), (792.0, 612.0)),
)


def test_a_span_has_the_pages_and_boxes_of_its_lines():
    assert [MAP.page_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [1, 1, 2, 2, 1, 1]
    assert MAP.pages(5, 12) == (1, 2)
    assert MAP.pages(10, 25) == (2,)
    assert MAP.within(9, 11) == MAP.boxes[:2]


def test_consecutive_lines_form_one_area():
    lines = (
        *(Box(1, 72, 80, 300, 92), Box(1, 70, 94, 290, 106)),
        *(Box(1, 320, 80, 540, 92), Box(1, 320, 94, 400, 106), Box(2, 320, 110, 400, 122)),
    )
    placed = PageMap((0, 10, 20, 30, 40), lines, ((612.0, 792.0),) * 2)
    assert placed.areas(0, 50) == (
        *(Box(1, 70, 80, 300, 106), Box(1, 320, 80, 540, 106), Box(2, 320, 110, 400, 122)),
    )
    assert placed.areas(12, 15) == (lines[1],)


def test_a_packed_map_round_trips():
    assert PageMap.from_bytes(MAP.to_bytes()) == MAP
