"""`domo-client doctor` and `support-bundle`."""
