"""Receiving: what is wanted of a topic, pulls, a group's progress."""
