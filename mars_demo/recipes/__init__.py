"""Recipes of the bundled models."""
