"""What it means: `lookup` goes one look-up step by step, `differ` says where two stores part, `stats` counts a whole store."""
