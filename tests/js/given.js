// What the modules of a component are given: constants of the stage, as `Stage` in mars_demo/show/components/stage
// passes them.

const mode = (name, title, fields = {}) => ({
  name,
  title,
  uses_tau: false,
  needs_draft: false,
  beyond: "unread",
  ...fields,
});

const constants = {
  main: false,
  lanes: 6,
  modes: [
    mode("ar", "One token per forward"),
    mode("mars", "MARS", { uses_tau: true }),
    mode("lossless", "MARS, lossless", { beyond: "draft" }),
    mode("jacobi", "Jacobi", { beyond: "draft" }),
    mode("block-diffusion", "Block diffusion", { uses_tau: true, beyond: "filled" }),
    mode("speculative", "Speculative", { uses_tau: true, needs_draft: true }),
  ],
};

globalThis.given = { element: null, constants }; // the tested modules draw nothing
