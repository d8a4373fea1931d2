// Each module below is a function. A component that starts runs its own copies of those it needs, so that no
// two components share the state of a module.

const marsDemo = {
  modules: {},

  /** Start a component in its folder's name, with what Gradio or a page from disk gives it. */
  start(name, given, constants) {
    const own = { "component.js": { ...given, constants } };
    const use = (path) => (own[path] ??= marsDemo.modules[path](use));
    use(`${name}/${name}.js`);
  },
};

