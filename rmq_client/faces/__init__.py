"""The client for code that knows no trio: a thread runs it on a loop of its own, and a face is the way into it."""
