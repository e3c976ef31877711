"""Define the commands by topic, with their names, arguments and help texts.

Each command imports its implementation from `rag_pipeline.cli` when it runs, so that help is fast.
"""
