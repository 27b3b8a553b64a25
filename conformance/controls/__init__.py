"""Negative controls: good servers made bad on purpose, to see that the cases notice."""
