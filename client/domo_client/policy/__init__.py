"""What a silo lets a coordinator do with its data, whatever the coordinator asks for."""
