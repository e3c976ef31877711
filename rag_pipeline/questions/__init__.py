"""Make synthetic questions for evaluation from the user's own documents.

`sections` finds sections, and `facts` reads facts. `asking`, `forms`, `german_forms` and `wording`
turn facts into questions, with the lists of `words`. `certification` tries each question on the
documents. `generation` selects questions. `written` lets a chat model write questions. `review`
shows questions to people.
"""
