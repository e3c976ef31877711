"""Search an index: analyse the query, rank chunks by vectors and terms, fuse and rerank."""
