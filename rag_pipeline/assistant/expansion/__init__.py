"""Documents from outside the corpus: found for a question, kept, indexed and marked.

`sources` look outside, `kept` keeps the found documents in a store of their own, `corpus` searches
them with the released configuration. The corpus, its evaluation and its leaderboard ignore them.
"""

from rag_pipeline.assistant.expansion.corpus import ExpandedCorpus as ExpandedCorpus
from rag_pipeline.assistant.expansion.kept import ExpandedDocuments as ExpandedDocuments
