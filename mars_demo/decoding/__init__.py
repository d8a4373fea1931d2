"""Decoding: requests, the strategies of the modes, answers, and branches."""
