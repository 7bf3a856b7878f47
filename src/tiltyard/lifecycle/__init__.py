"""How a table disappears and comes back: the arrows between the states of its arbiter."""
