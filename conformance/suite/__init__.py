"""The conformance suite: cases that ask any server over the wire, and what their outcomes look like.

To add a case: write an async function of a `Trial` in the module of `cases/` that has its capability, with
`@case("capability.what", Level.MUST, rests_on="JavaClass.method", codes=…)` above it; the docstring's first line says what holds
when it passes.  What it needs of a server is a `Need`.  Take requests from `trial` and `means/`; never sleep, wait for what must
come.  `rmq conform --only capability.what --jars 5.5.0` must pass before ours is asked; what ours may fail stands with its
reason in `expected/ours.toml`. A new request code gets its row in a `cases/grid_*` module.  Ids are never changed.  Then declare
a defect that the case must catch (`conformance.controls`), and make the pages (`make pages`).
"""
