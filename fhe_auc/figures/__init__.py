"""Everything that is drawn, readable in black and white; matplotlib is loaded when something is."""
