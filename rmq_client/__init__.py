"""A RocketMQ client: `connect`, then `client.producer(group)`, `client.puller(group)`.  docs/client.md is the tutorial."""
