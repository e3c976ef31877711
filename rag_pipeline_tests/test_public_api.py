import pkgutil
import re

import rag_pipeline


def test_the_public_names_are_pinned():
    assert rag_pipeline.__all__ == [
        "AsyncClient",
        "Caller",
        "Chunk",
        "Client",
        "ContextualizedChunk",
        "Corpus",
        "Document",
        "GoldSpan",
        "Query",
        "RagPipeline",
        "RagPipelineError",
        "ScoredChunk",
    ]
    assert all(hasattr(rag_pipeline, name) for name in rag_pipeline.__all__)


def test_the_map_of_the_package_names_every_module():
    modules = {module.name for module in pkgutil.iter_modules(rag_pipeline.__path__)}
    assert modules - set(re.findall(r"\w+", rag_pipeline.__doc__)) == set()


def test_the_stages_are_plain_functions_for_notebooks(tmp_path):
    from rag_pipeline.chunking import chunk
    from rag_pipeline.chunking.recursive import RecursiveChunking
    from rag_pipeline.config import DocumentsSource
    from rag_pipeline.contextualization import contextualize
    from rag_pipeline.contextualization.structural import StructuralContext
    from rag_pipeline.loading.sources import Rejected, scan

    (tmp_path / "a.md").write_text("# Leave\n\n" + "Parents may take sixteen weeks. " * 10)
    (source,) = scan(DocumentsSource(path="."), tmp_path)
    assert not isinstance(source, Rejected)
    document = source.load()
    chunks = chunk(document, RecursiveChunking(method="recursive", max_characters=100))
    contextualized = contextualize(document, chunks, StructuralContext(method="structural"))
    assert [c.chunk for c in contextualized] == chunks
    assert all(c.indexed_text.startswith(c.chunk.text) for c in contextualized)
    assert "Leave" in contextualized[-1].context
