"""Layouts, modes, acceptance, records and limits: the base of all packages, which imports none of them."""
