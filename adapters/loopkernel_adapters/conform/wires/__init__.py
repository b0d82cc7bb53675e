"""The wires that a loopback provider speaks, each in a module: how requests are read, and how replies are written."""
