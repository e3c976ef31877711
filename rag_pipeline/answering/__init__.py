"""Answer queries from their ranked chunks, with citations.

Sentences of the chunks are quoted, or a chat model writes the answer.

Evaluation and served releases use the same code.
"""
