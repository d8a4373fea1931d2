"""`python -m mars_demo`: the command line."""

from mars_demo.cli import main

raise SystemExit(main())
