"""Bytes of a store's files as numpy arrays: message units, queue units, index slots, properties; no directories, no tables.

`scan` cuts a log file into batches of whole units, `units` reads a batch, `queues` reads queue units, `texts` the properties.
"""
