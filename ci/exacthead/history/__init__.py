"""History: what became of everything in earlier runs, read from run folders, kept in SQLite."""
