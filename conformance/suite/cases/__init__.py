"""The cases, one capability a file.  `conformance.suite.case.load` imports them all."""
