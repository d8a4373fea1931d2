"""MARS Demo: `python app.py` serves it; Gradio's own environment variables set the address and port."""

from mars_demo.ui.app import LOOK, build

demo = build()

if __name__ == "__main__":
    demo.launch(**LOOK)
