"""Timer messages on disk: the log of what entered the wheel, the wheel, the check file, and the machine that turns it.

Java: `TimerMessageStore` and what it is made of, in the package `store.timer`.
"""
