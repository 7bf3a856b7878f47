"""Table versions: who may write the next, which may go, and which readers see."""
