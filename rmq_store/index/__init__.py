"""The key index: its files, their entries, and the hashes of keys."""
