"""Consume queues, plain, with extensions, and of batches: what is appended to one, and how an entry in it is found."""
