"""From a prompt to an answer: layouts, the engine that runs them, modes' strategies, and the record."""
