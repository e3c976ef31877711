"""Chunks that are longer than what the embedding reads: the rest of them is in no vector."""

from rag_pipeline.workspace import Workspace

_DOCUMENTS = 20
_CHUNKS = 400
"""Numbers of documents, evenly over the corpus, and of their chunks that are looked at."""
_SPECIAL_TOKENS = 2
"""Tokens that a model puts around each text."""


def window_warnings(workspace: Workspace) -> list[str]:
    """Return a line for each chunking of which chunks are too long for an embedding.

    Looks at a sample, and at none where the chunking counts the embedding's tokens itself.
    """
    config = workspace.config
    found = []
    for chunking, name in sorted(
        {(c.chunking, c.embedding) for c in config.all_configurations.values() if c.embedding}
    ):
        settings = config.chunkings[chunking]
        window = config.embeddings[name].window
        counted = getattr(settings, "max_tokens", None) is not None
        if window is None or counted:
            continue
        reads = window - _SPECIAL_TOKENS
        texts = _sample(workspace, chunking)
        starts = config.located(config.embeddings[name]).token_starts
        # A token has a character at least.
        long = sum(len(text) > reads and len(starts(text)) > reads for text in texts)
        if long:
            found.append(
                f"{chunking}: {long:,} of {len(texts):,} sampled chunks have more than the {reads} "
                f"tokens that {name} reads; the rest of them is in no vector. Set max_tokens: "
                f"{reads} in chunkings.{chunking}"
            )
    return found


def _sample(workspace: Workspace, chunking: str) -> list[str]:
    table = workspace.chunks(chunking)
    if not table.exists():
        return []
    names = sorted(table.state())
    chosen = names[:: max(1, -(-len(names) // _DOCUMENTS))]
    texts: list[str] = []
    for batch in table.read(["text"], chosen):
        texts += batch.column("text").to_pylist()
    return texts[:: max(1, -(-len(texts) // _CHUNKS))]
