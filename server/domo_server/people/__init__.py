"""Who people are, and what they may do: tokens, codes and sessions with a role."""
