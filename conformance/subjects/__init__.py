"""The servers that the suite judges, each behind one face (`base.Subject`): `with subject as target: ...`.

Own ones (`jars`, `ours`) are processes with shortened intervals, `docker` and `compose` containers, `address` is anybody's.  What
is started is always ended: on success, on failure, when we are killed.  Nothing is imported here: `docker` is optional.
"""
