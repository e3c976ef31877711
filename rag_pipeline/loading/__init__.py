"""Turn files into documents: `scan` lists them, `Source.load` parses one.

`folder` finds files, `records` finds the documents inside JSON and JSON Lines, `parsers` turns
HTML, PDF and Office files into Markdown, `parser_process` has it done in a process of its own,
`text` decodes and titles, `sources` joins them.
"""

from rag_pipeline.loading.duplicates import duplicate_groups as duplicate_groups
from rag_pipeline.loading.sources import Loadable as Loadable
from rag_pipeline.loading.sources import Rejected as Rejected
from rag_pipeline.loading.sources import scan as scan
