"""The process that the package runs in: forks, signals, streams, memory, exit status."""
