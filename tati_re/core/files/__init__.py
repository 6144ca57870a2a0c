"""Files: regular ones only, lines of text, TOML, archives, cells of tables."""
