"""One episode: a clock, the user's side, the agent's protocol, the loop, and what is kept of it."""
