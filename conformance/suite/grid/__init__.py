"""The grid: every request code with every way to get it wrong; its rows are in `conformance.suite.cases.grid_*`."""
