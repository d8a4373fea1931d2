// Lets Node import the page's modules: component.js, which exists only in the bundle, is replaced by a fixture.

import { register } from "node:module";

register("./hooks.js", import.meta.url);
