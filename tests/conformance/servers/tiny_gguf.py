"""A tiny language model in GGUF: tiny_gguf.py FILE.

A llama of one layer whose weights are zero, except that every state points to the token for the
letter k. So its answer to anything is a row of k. Needs the packages gguf and numpy.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

CONTEXT_TOKENS = 256
WIDTH, HEADS, HIDDEN = 32, 4, 64
SPECIAL = ("<unk>", "<s>", "</s>")
LETTER = len(SPECIAL) + ord("k")
ZEROS = {
    **{f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
}


def write(path: Path) -> None:
    """Write the model in GGUF.

    Source: GGUF specification, "Standardized key-value pairs" and "Standardized tensor names".
    """
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    made = gguf.GGUFWriter(path, "llama")
    made.add_context_length(CONTEXT_TOKENS)
    made.add_embedding_length(WIDTH)
    made.add_block_count(1)
    made.add_feed_forward_length(HIDDEN)
    made.add_head_count(HEADS)
    made.add_head_count_kv(HEADS)
    made.add_rope_dimension_count(WIDTH // HEADS)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_vocab_size(len(tokens))
    made.add_tokenizer_model("llama")
    made.add_token_list(tokens)
    made.add_token_scores([0.0] * len(tokens))
    made.add_token_types(types)
    made.add_bos_token_id(1)
    made.add_eos_token_id(2)
    made.add_unk_token_id(0)
    for name, shape in ZEROS.items():
        made.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
    states = np.zeros((len(tokens), WIDTH), np.float32)
    states[:, 0] = 1
    letter = np.zeros((len(tokens), WIDTH), np.float32)
    letter[LETTER, 0] = 10
    ones = np.ones(WIDTH, np.float32)
    made.add_tensor("token_embd.weight", states)
    made.add_tensor("output.weight", letter)
    for norm in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        made.add_tensor(f"{norm}.weight", ones)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
