"""What a silo's data mean, said and measured, and whether two silos mean the same."""
