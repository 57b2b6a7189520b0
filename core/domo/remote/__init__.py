"""The commands of `domo` that speak to a coordinator."""
