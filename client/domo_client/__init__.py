"""The silo: the loop API, and the agent that trains a task over it."""
