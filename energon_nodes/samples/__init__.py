"""What a sample is made of, and how its parts become values."""
