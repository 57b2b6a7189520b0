"""What tests of models come to: the federation's numbers, each silo's, and the best model."""
