"""The pictures of the documents, each drawn as SVG by hand: no font, style or script comes from elsewhere."""
