"""The files beside the documents are read before anything is spent on them."""

from rag_pipeline.chunking import read_given_chunks
from rag_pipeline.config import CorpusConfig, GivenChunking
from rag_pipeline.errors import ConfigError
from rag_pipeline.queries import read_queries


def check_inputs(config: CorpusConfig) -> None:
    """Read the queries and given chunks.

    Raises InputError naming file, line and value, ConfigError for a file that is not there.
    """
    if config.queries_path is not None:
        read_queries(config.queries_path)
    used = dict.fromkeys(c.chunking for c in config.all_configurations.values())
    for chunking in used:
        if isinstance(config.chunkings[chunking], GivenChunking):
            given = config.chunks_path(chunking)
            if not given.exists():
                raise ConfigError(f"{config.where}: chunkings.{chunking}: no such file: {given}")
            read_given_chunks(given)
