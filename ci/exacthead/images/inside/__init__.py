"""What runs while an image is built; it is given one file that says everything."""
