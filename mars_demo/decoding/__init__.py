"""Decoding: requests, the strategies of the modes, answers, branches and the lens."""
