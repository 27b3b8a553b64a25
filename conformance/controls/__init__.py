"""Negative controls: good servers made bad on purpose, to see that the cases notice.

To add a defect: a row in the `DEFECTS` of the `wire_*` module of its capability, or of `store_files`, under `capability.what`:
what the server does wrong in one sentence, the cases that must catch it, and the function that spoils it.  A wire defect changes
a frame that passes the relay (`edits` has the usual changes), a defect in the files is made on a copy of the store (`shadow`).
`rmq conform controls --jars 5.5.0 --only capability.what` must say "caught": first the cases pass without the defect, then one
fails with it.  A case that fails on the good server makes the run fail, and nothing is tried a second time.  Names are never
changed.
"""
