"""`python -m mars_demo.cli`, as launchers were told to call it before `-m mars_demo` was enough."""

from mars_demo.cli import main

raise SystemExit(main())
