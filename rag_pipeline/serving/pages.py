"""A cited span -> its page of the PDF, as an image with boxes around the span."""

import base64

from pydantic import BaseModel

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.errors import InputError
from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.serving.tools import dataset_names


class PageView(BaseModel):
    """A page as a data URL; `boxes` are left, top, width and height as shares of the page."""

    dataset: str
    document_name: str
    page: int
    pages: int
    image: str
    boxes: list[tuple[float, float, float, float]]


def page_view(
    assistant: Assistant,
    document_name: str,
    dataset_info: str,
    page: int | None,
    start: int,
    end: int,
) -> PageView:
    """Return a page, by default the first page of a span; raise InputError if there is none."""
    dataset, document = assistant.find_document(document_name, dataset_names(dataset_info))
    held = assistant.corpora.get(dataset)
    if document.page_map is None or not isinstance(held, ReleasedCorpus):
        raise InputError(f"{document_name[:200]!r} has no pages to show, only text")
    placed = PageMap.from_bytes(document.page_map)
    number = page or placed.page_at(start)
    if number > len(placed.sizes):
        raise InputError(f"{document_name[:200]!r} has {len(placed.sizes)} pages, not {number}")
    width, height = placed.sizes[number - 1]
    boxes = [b for b in placed.within(start, end) if b.page == number] if end > start else []
    return PageView(
        dataset=dataset,
        document_name=document.document_id,
        page=number,
        pages=len(placed.sizes),
        image="data:image/png;base64,"
        + base64.b64encode(held.corpus.page_image(document.document_id, number)).decode(),
        boxes=[
            (b.x0 / width, b.y0 / height, (b.x1 - b.x0) / width, (b.y1 - b.y0) / height)
            for b in boxes
        ],
    )
