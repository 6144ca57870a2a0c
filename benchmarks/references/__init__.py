"""Reference posteriors of small networks, and the score of other draws against them."""
