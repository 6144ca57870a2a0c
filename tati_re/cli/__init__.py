"""The commands, one thin file each: they read the options, start the engine and print what came out."""
