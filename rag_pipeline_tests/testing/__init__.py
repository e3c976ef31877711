"""What tests share: corpora, servers, a browser."""
