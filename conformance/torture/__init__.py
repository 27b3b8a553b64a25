"""A server that torments a client, and a judge of what the client does next."""
