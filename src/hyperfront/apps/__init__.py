"""Applications on top of the library: command line, explorer, server."""
