"""The cases, one capability a file.  `conformance.case.load` imports them all."""
