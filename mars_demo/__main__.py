from mars_demo.cli import main

raise SystemExit(main())
