"""The fast simulator: the layers of all silos in one call, the same within float tolerance."""
