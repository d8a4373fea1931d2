"""Pages without a server, and folders for Spaces and browsers."""
