"""The files of a store, synchronous and deterministic, on a disk and times handed in: `store` is what the broker talks to.

`disk` (files in rows, the lock, whole small files), `queues` (consume queues), `log` (the commit log), `index` (keys), `read`
(pulls and look-ups), `recovery` (opening a directory); beside them what joins all: `dispatcher`, `flush`, `retention`.
"""
