"""From addresses to a mesh of connected, authenticated parties."""
