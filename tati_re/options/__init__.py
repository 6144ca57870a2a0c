"""Options: names and values from Python, flags and TOML become one checked object; no TensorFlow and no model."""
