"""Store bytes as columns: many stored messages, queue units or index entries at once, as numpy arrays.

Needs numpy; only `rmq_columns.arrow` needs pyarrow.  Both come with the extra `[columns]`; nothing else of this repository
needs them.  Every offset is derived from the layouts of `rmq_wire`, and every length is checked before it is used.
"""
