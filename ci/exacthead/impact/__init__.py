"""Impact: which tests a change can matter to, and why each of the others is left out."""
