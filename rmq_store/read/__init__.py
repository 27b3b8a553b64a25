"""What consumers and operators read: pulls of a queue, messages by position, key and time."""
