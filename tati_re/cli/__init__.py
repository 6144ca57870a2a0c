"""The commands, one thin file each: parse options, call the package, print the result."""
