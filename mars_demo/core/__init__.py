"""What everything else is made of, without imports of ours: layouts, modes, acceptance, records, limits."""
