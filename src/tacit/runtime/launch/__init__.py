"""`tacit.run`: all parties of a program on this machine, as threads or processes."""
