"""llama.cpp's Python server with a tiny model: openai_model.py PORT FOLDER.

Runs in the environment of requirements/openai.txt.
"""

import sys
from pathlib import Path

from llama_cpp.server.__main__ import main
from tiny_gguf import CONTEXT_TOKENS, write

NAME = "tiny"

if __name__ == "__main__":
    port, folder = sys.argv[1:]
    model = Path(folder) / "tiny.gguf"
    write(model)
    sys.argv[1:] = [
        *("--model", str(model), "--model_alias", NAME, "--n_ctx", str(CONTEXT_TOKENS)),
        *("--host", "127.0.0.1", "--port", port),
    ]
    main()
