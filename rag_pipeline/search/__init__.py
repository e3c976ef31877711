"""A query -> ranked chunks: both indexes, query analysis, fusion, ranking, reranking."""
