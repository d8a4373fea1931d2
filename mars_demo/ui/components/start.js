// Each module below is a function. Every component runs its own copies of its modules, so that components
// share no state of modules.

// biome-ignore lint/correctness/noUnusedVariables: the scripts of components and of pages call it
const marsDemo = {
  modules: {},

  /**
   * Start the component of folder `name`; `given` is what Gradio or a standalone page passes to scripts.
   */
  start(name, given, constants) {
    const own = { "component.js": { ...given, constants } };
    const use = (path) => (own[path] ??= marsDemo.modules[path](use));
    use(`${name}/${name}.js`);
  },
};
