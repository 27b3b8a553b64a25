"""Captures: what a stock client and a server said to each other, kept in a file, shown, and said again to another server."""
