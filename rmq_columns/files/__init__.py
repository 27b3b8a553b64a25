"""Where the bytes are: directories and files of this machine or of a remote file system, and what makes written ones durable."""
