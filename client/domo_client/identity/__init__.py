"""Who this silo is: its certificate, key and CA; enrolment, renewal, and what is wrong with TLS."""
