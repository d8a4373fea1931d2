"""How the bundled models are trained from their beginnings."""
