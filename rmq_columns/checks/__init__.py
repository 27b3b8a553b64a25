"""What can be wrong in a store, found by comparing its files with each other and with themselves.

`log`, `queues` and `index` look at one file or one part of it each, so that they can be looked at side by side, in processes of
one machine (`rmq inspect verify`) or in tasks of many (`rmq spark audit`); `whole` plans them and joins what goes over
the edges.  No check stands anywhere else.  Needs numpy.
"""
