"""The user's own documents -> questions to measure with, where nobody has written any.

`facts` reads what documents state, `wording` asks for it, `certification` tries each question on
the documents, `generation` chooses, `written` has a chat model ask, `review` lets people decide.
"""
