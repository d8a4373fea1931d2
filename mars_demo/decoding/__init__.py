"""Decoding: requests, the strategies of the modes and answers."""
