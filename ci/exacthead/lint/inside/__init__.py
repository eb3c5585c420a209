"""What runs in the worker that has the tools, with its interpreter and its packages."""
