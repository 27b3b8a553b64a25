"""SQL92 filters: which stored messages a subscription like `price > 10 AND region IN ('a', 'b')` wants, by their properties.

`compiled(text)` is the only door: it gives a `Selector`, or raises `SelectorError` with the words of the reference.  The module
`tokens` cuts the text up, `grammar` reads it, `syntax_errors` says what was expected where, `checked` refuses what cannot be
compared, `expressions` holds what was read and turns it into closures, `values` compares two values; `conditions` asks stored
properties, and remembers what came out.  No text of a user is ever run as Python.

Java: `org.apache.rocketmq.filter` (`SelectorParser`, `SqlFilter`, the expression classes), `MessageEvaluationContext`.
"""
