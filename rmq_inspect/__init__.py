"""A store directory looked at without a broker, by what a person asks: `decode` what is there, `explain` it, `verify`, `repair`.

Reads files and nothing else; only a repair writes, and that into a new directory.
"""
