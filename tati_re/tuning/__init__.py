"""What a burn-in does to a sampler: step size, mass, and which sampler is taken."""
