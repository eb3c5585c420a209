"""Models by exact revision: what every process loads is a folder whose content was checked."""
