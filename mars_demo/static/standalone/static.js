// The script of static pages without a script of their own.

import { begin } from "./figures.js";

begin();
