"""What moving a round costs: domo, its floor, and its peers."""
