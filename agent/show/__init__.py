"""A topology for people: as a matrix, as a tree of text, as a picture."""
