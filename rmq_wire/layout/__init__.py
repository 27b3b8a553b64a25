"""Where the bytes are, in construct's words.  Nothing here decides anything, and construct does not leave this package."""
