"""Lance's own clients on the same directory: what we make they use, and what they make we use."""
