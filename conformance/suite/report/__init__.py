"""What runs look like to people and to other programs."""
