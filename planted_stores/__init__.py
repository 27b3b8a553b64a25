"""Stores of any size with planted faults and a ledger of them, for tests, benches and `rmq spark generate`.

`pattern` is the round of messages that repeats, `plan` says where each message is, `units` writes them, `faults` spoils them.
"""
