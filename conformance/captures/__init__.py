"""Captures: what a stock client and a server said to each other, kept in a file, shown, and said again to another server.

To add one: `rmq conform record` stands between a client and the real servers while the client runs, and writes JSON lines; the
golden ones are whole sessions, made by `python -m tests.java.golden_captures NAME`, which has a function for each.
`rmq conform replay FILE` says the client's side to another server and reports each difference in meaning: what is tied to a
server (addresses, ids, times) is declared by its kind in `kinds`, a body's form by its code in `bodies`.  A difference that is
known and wanted is an entry, with its reason, in the TOML file beside the capture (`allowed`).  A new capture must replay on
5.5.0 itself without a difference.
"""
