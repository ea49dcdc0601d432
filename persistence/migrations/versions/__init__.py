"""One module a released layout."""
