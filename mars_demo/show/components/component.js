// What Gradio or a static page passes to the script of a component, and the constants from Python.
//
// A page may have several figures of a component. `build.js` makes the modules of a component one function of
// `given`; each figure calls it and has its own copies of them.

export const { element, props, constants, watch, trigger, server } = given;
