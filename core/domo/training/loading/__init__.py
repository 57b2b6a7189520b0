"""What happens in a loader process, and how its batches come back."""
