"""The pages: what a visitor sees of the records the decoder makes."""
