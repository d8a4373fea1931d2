"""Records in, pictures out: the stage and the other drawings. No model is imported here."""
