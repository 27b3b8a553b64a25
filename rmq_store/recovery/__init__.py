"""Opening a directory: what the last stop left is looked at, mended and brought into one state; `opening` says in which order."""
