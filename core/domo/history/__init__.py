"""The history of a run, of a simulation or a coordinator: numbers, tables, pictures."""
