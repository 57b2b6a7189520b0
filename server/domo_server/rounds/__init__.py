"""The rules of a round: when it closes, and what follows."""
