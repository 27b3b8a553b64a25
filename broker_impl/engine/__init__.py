"""A server as a function of what arrived: `engine` turns, `router` finds the method, `commits` lets answers go."""
