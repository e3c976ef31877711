"""The commands by topic: their names, arguments and help.

Each command imports its work from `rag_pipeline.cli` when it runs, so that help is fast.
"""
