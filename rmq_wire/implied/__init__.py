"""What a stored message implies elsewhere: in which queues it is, and where; what an entry says of it; how it is found by key.

Pure functions over what is stored.  Store, inspector and columns obey this text (a test holds the vector forms in `rmq_columns`
equal to it), and what a new kind of message implies is said here.
"""
