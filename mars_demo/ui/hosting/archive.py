"""The zip of a visitor's trained model, made when it is requested, and sent once."""

import tempfile
import zipfile
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from mars_demo.models.export import card
from mars_demo.models.export.save import save_checkpoint
from mars_demo.ui.hosting.registry import MODELS, Trained

PREFIX = "gradio_api/trained"  # below Gradio's prefix, like the page's scripts


def url_of(model: Trained) -> str:
    """Return the URL of the model's zip, relative to the page."""
    return f"{PREFIX}/{model.ticket}"


def zipped(model: Trained) -> Path:
    """Write the model as a zip of a folder that plain transformers loads; return its temporary file."""
    trained = model.checkpoint
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / model.name
        save_checkpoint(trained.model, trained.tokenizer, folder, trained.block_size, trained.objective)
        (folder / "recipe.json").write_text(model.recipe, encoding="utf-8")
        card.write_model_card(folder)
        with (
            tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file,
            zipfile.ZipFile(file, "w") as archive,  # uncompressed: weights would not shrink
        ):
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
    return Path(file.name)


def _send(request: Request) -> Response:
    model = MODELS.redeem(request.path_params["ticket"])
    if model is None:
        return PlainTextResponse("There is no such model, or it has been downloaded.", 404)
    file = zipped(model)
    return FileResponse(file, filename=f"{model.name}.zip", background=BackgroundTask(file.unlink))


ROUTE = Route(f"/{PREFIX}/{{ticket}}", _send)
