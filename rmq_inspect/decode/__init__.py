"""What is in the files: `directory` lists them, `log`, `queues`, `index_file` and `files` read them, `records` shows messages.

`select` is the way to single messages, `export` writes many into one file.
"""
