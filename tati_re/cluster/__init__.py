"""Workers: processes that answer messages, and what happens when one of them dies."""
