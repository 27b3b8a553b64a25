"""A server that torments a client, and a judge of what the client does next.

To add a script: write `scripts/NAME.toml` (`script` declares its keys and refuses others): the client's program, the torments as
`[[step]]` (what is done to which request), what the client must do as `[[expect]]`, each with the check that judges it.  A new
torment is a function in `torments`, a new check one in `judge`, over the recorded events alone.  Say what it rests on in
`rests-on`, and since which client version it holds.  `rmq conform torture --only NAME` runs it on a stock Java client, which
must pass; a client with the planted defect must fail (`tests/conformance/torture_client.py`).  Nothing is tried a second time.
"""
