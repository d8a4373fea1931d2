"""Components of our own, each a folder of Python, HTML, CSS and JavaScript."""
