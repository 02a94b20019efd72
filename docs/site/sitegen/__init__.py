"""Pages of the documentation site that are made from the code and from files outside of `docs/`."""
