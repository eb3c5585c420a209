"""Container images of the exact head: built reproducibly, verified from git, run isolated."""
