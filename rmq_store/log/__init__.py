"""The commit log: staging and committing units, reading them, walking files in which any byte may be wrong."""
