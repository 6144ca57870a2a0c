"""What a run says of itself: its certificate, its summary, and the end of its screen."""
