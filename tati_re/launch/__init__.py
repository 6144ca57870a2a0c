"""How a run is started, tuned, ended and resumed."""
