"""Who may call: the coordinator's own CA, codes, admissions, and the check of every call."""
