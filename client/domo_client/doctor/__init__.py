"""`domo-client doctor`."""
