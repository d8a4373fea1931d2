// What `bundle.py` puts in the place of the module component.js: what Gradio or a standalone page passes to
// the script of a component, and the constants from Python.

/** An entry of the table of modes (mars_demo/modes.py). */
export interface Mode {
  name: string;
  title: string;
  uses_tau: boolean;
  needs_draft: boolean;
  /** The use of a slot after the accepted ones. */
  beyond: "unread" | "draft" | "filled";
}

/** The constants of the stage; other components have their own. */
export interface Constants {
  modes: Mode[];
  /** The most runs on the stage. */
  lanes: number;
}

export const element: HTMLElement;
export const constants: Constants;
