// What Gradio or a static page passes to a component's script; see component.js.

/** An entry of the table of modes (mars_demo/core/modes.py). */
interface Mode {
  name: string;
  title: string;
  uses_tau: boolean;
  needs_draft: boolean;
  /** The use of a slot after the accepted ones. */
  beyond: "unread" | "draft" | "filled";
}

interface Given {
  element: any;
  /** The value is data for the scripts, mostly JSON or JSON lines; a `whole` one does not grow. */
  props: { value: string; whole?: boolean };
  /** Constants from Python, other ones for each component. */
  constants: any;
  /** Call a function after each change of the value by Python. */
  watch(name: "value", changed: () => void): void;
  /** Send an event of the component to Python. */
  trigger(event: string, data?: object): void;
  /** Functions of Python. */
  server: Record<string, (input: any) => Promise<any>>;
}

/** The parameter of the function that `build.js` makes of a component's modules. */
declare const given: Given;

/** The functions of the built scripts by name: one per component, and those of page.js for Gradio's events. */
declare const marsDemo: Record<string, (given: Given) => any>;
