"""What a broker knows, in memory: topics, groups, clients, offsets, locks, waiting pulls; `persisted` makes their files."""
