"""Where the silos of a simulation are computed: here, or in processes of their own."""
