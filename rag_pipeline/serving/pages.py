"""Return a page of a PDF as an image, with boxes around a cited span."""

import base64

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.client.records import PageImage, PageQuery
from rag_pipeline.errors import InputError
from rag_pipeline.loading.page_map import PageMap


def page_view(assistant: Assistant, wanted: PageQuery) -> PageImage:
    """Return a page with the boxes of a span, by default the page with the span's start.

    A box is left, top, width and height, as shares (0 to 1) of the page. Raise InputError for an
    unknown page.
    """
    corpora = [wanted.corpus] if wanted.corpus else None
    corpus, document = assistant.find_document(wanted.document_id, corpora)
    start, end = wanted.start, wanted.end
    held = assistant.corpora.get(corpus)
    if document.page_map is None or not isinstance(held, ReleasedCorpus):
        raise InputError(f"{wanted.document_id[:200]!r} has text but no pages")
    placed = PageMap.from_bytes(document.page_map)
    number = wanted.page or placed.page_at(start)
    if number > len(placed.sizes):
        raise InputError(
            f"{wanted.document_id[:200]!r} has {len(placed.sizes)} pages, not {number}"
        )
    width, height = placed.sizes[number - 1]
    boxes = [b for b in placed.within(start, end) if b.page == number] if end > start else []
    return PageImage(
        corpus=corpus,
        document_id=document.document_id,
        page=number,
        pages=len(placed.sizes),
        image="data:image/png;base64,"
        + base64.b64encode(held.corpus.page_image(document.document_id, number)).decode(),
        boxes=tuple(
            (b.x0 / width, b.y0 / height, (b.x1 - b.x0) / width, (b.y1 - b.y0) / height)
            for b in boxes
        ),
    )
