"""Sending: which queue, how often, in which form."""
