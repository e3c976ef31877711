"""What `rag --help` shows: each command's name, arguments and help, by topic.

What a command does stands in the modules beside this folder and is imported when it runs, so that
help comes at once.
"""
