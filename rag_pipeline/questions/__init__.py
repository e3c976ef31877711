"""Make synthetic questions for evaluation from the user's own documents.

`facts` reads facts. `asking`, `forms`, `german_forms` and `wording` turn them into questions.
`certification` tries each question on the documents. `generation` selects questions, `written` uses
a chat model, and `review` shows them to people.
"""
