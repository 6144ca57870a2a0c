"""What is sampled: the model, its data, prior and likelihood as one physical system."""
