"""What lies under all files: the disk itself, rows of files of one size, the lock, checkpoint and configuration files."""
