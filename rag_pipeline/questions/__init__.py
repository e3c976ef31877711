"""Make synthetic questions for evaluation from the user's own documents.

`facts` reads facts, `forms` and `wording` turn them into questions, and `certification` tries each
question on the documents. `generation` selects questions, `written` uses a chat model, `review`
shows them to people.
"""
