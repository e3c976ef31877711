"""Turn files into documents: `scan` lists the sources, and `load` parses one source.

`folder` finds files, `records` finds documents in JSON and JSON Lines, and `parsers` converts HTML,
PDF and Office files to Markdown. `parser_process` runs a parser in a separate process, `text`
decodes text and finds titles, and `sources` combines these modules.
"""

from rag_pipeline.loading.sources import Rejected as Rejected
from rag_pipeline.loading.sources import SourceFile as SourceFile
from rag_pipeline.loading.sources import scan as scan
