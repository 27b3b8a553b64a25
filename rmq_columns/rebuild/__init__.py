"""Consume queues made anew out of the commit log by many tasks: `entries` says what a message implies, `work` has the calls."""
