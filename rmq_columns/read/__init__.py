"""Stores as tables: `options` say what is read, `stores` lists it, `plan` cuts it into splits, `reading` reads one split or all.

`schema` names each table's columns; `messages` makes that of the commit log, `tables` the others.
"""
