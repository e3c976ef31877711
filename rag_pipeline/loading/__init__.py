"""Turn files into documents: `scan` lists the sources, and `SourceFile.load` parses one source.

`folder` finds files. `records` finds documents in JSON files. `parsers` converts HTML, PDF, Office
files and other formats to Markdown, and `parser_process` runs it in a separate process.
"""
