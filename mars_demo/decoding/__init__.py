"""Decoding: requests, the engine, acceptance, the strategies of the modes, and run records."""
