"""One module per database: only what differs, each difference with its reason."""
