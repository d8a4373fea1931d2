"""Custom components, each a folder of HTML, CSS, JavaScript and, for some, Python."""
