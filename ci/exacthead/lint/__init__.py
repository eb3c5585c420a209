"""Static checks of a repository: each rule gives findings with file, line, rule and fix."""
