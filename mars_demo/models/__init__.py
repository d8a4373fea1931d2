"""From a name to a checkpoint that can decode, and text as its token ids."""
