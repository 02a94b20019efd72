"""The spaCy component and its extensions."""
