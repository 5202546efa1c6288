"""Modules of other packages, tiny, from their configurations. Cases of packages that are not installed are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.oracle.case import NO_VMAP, Case
from tests.oracle.zoo.layers import randn

TEXT = {"vocab_size": 17, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IMAGE = {"image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 8, "num_hidden_layers": 1}


def transformer(name: str, head: str, *, recompute: bool = False, **options: Any) -> Callable[[], nn.Module]:
    """A model of transformers without pretrained weights."""

    def make() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**options)
        model = getattr(transformers, name + head)(config)
        if recompute:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model

    return make


def words(*shape: int, **more: Any) -> Callable[[], dict[str, Any]]:
    """Tokens, and keyword arguments beside them."""
    return lambda: {"input_ids": torch.randint(3, 17, shape), **more}


def pixels(*shape: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"pixel_values": torch.randn(*shape)}


def hugging_face(name: str, make: Callable[[], nn.Module], inputs: Callable[[], Any], **options: Any) -> Case:
    """Float64 agrees less well: parts of these models compute in float32 whatever their weights are in."""
    return Case(f"transformers: {name}", make, inputs, needs=["transformers"], **{"precision": 1e-5} | options)


GPT2 = {
    "vocab_size": 17,
    "n_positions": 8,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
BERT = {**TEXT, **QUIET, "max_position_embeddings": 8}
LLAMA = {**TEXT, "num_key_value_heads": 1, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 0}
T5 = {"vocab_size": 17, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
PLAIN = {"use_cache": False}


def adapted() -> nn.Module:
    """BERT with low-rank adapters, all else frozen."""
    import peft

    base = transformer("Bert", "ForSequenceClassification", **BERT)()
    made = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["query", "value"], lora_dropout=0.0))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_()  # else the gradient of A is zero
    return made


def of(package: str, make: Callable[[Any], nn.Module]) -> Callable[[], nn.Module]:
    """A module made by a function of a package, which is imported when the module is made."""

    def build() -> nn.Module:
        import importlib

        return make(importlib.import_module(package))

    return build


class Graph(nn.Module):
    """Two layers of torch_geometric on one graph."""

    def __init__(self, first: nn.Module, second: nn.Module):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x, edges)), edges)


def graph(make: Callable[[Any], tuple[nn.Module, nn.Module]]) -> Callable[[], nn.Module]:
    return of("torch_geometric.nn", lambda nn: Graph(*make(nn)))


def edges() -> tuple[Tensor, Tensor]:
    return torch.randn(6, 3), torch.randint(6, (2, 10))


def tabnet(package: Any) -> nn.Module:
    matrix = torch.eye(4)
    return package.TabNet(4, 2, n_d=4, n_a=4, n_steps=2, virtual_batch_size=8, group_attention_matrix=matrix)


PYG = {"needs": ["torch_geometric"]}
CASES = [
    hugging_face("BERT", transformer("Bert", "ForSequenceClassification", **BERT), words(4, 5)),
    hugging_face(
        "BERT, checkpointing", transformer("Bert", "Model", recompute=True, **BERT), words(4, 5), refused=NO_VMAP
    ),
    hugging_face(
        "DistilBERT, dropout",
        transformer(
            "DistilBert", "ForSequenceClassification", vocab_size=17, dim=8, hidden_dim=12, n_layers=1, n_heads=2
        ),
        words(4, 5),
        random=True,
    ),
    hugging_face("GPT-2", transformer("GPT2", "LMHeadModel", **GPT2, **NO_DROPOUT), words(4, 5, **PLAIN)),
    hugging_face(
        "GPT-2 with a cache",
        transformer("GPT2", "LMHeadModel", **GPT2, **NO_DROPOUT),
        words(4, 5),
        refused=dict.fromkeys(("at(ray)", "reload"), "cannot be stacked"),
    ),
    hugging_face(
        "GPT-2, checkpointing",
        transformer("GPT2", "LMHeadModel", recompute=True, **GPT2, **NO_DROPOUT),
        words(4, 5, **PLAIN),
        refused=NO_VMAP,
    ),
    hugging_face(
        "T5",
        transformer("T5", "ForConditionalGeneration", **T5),
        words(4, 5, decoder_input_ids=torch.ones(4, 3, dtype=torch.long), **PLAIN),
        refused=NO_VMAP,
    ),
    hugging_face("Llama", transformer("Llama", "ForCausalLM", **LLAMA), words(4, 5, **PLAIN)),
    hugging_face(
        "Llama, checkpointing",
        transformer("Llama", "ForCausalLM", recompute=True, **LLAMA),
        words(4, 5, **PLAIN),
        refused=NO_VMAP,
    ),
    hugging_face(
        "Mixtral",
        transformer("Mixtral", "ForCausalLM", **LLAMA, num_local_experts=3, num_experts_per_tok=2),
        words(4, 5, **PLAIN),
        dtype=torch.float32,
    ),
    hugging_face(
        "Mamba",
        transformer(
            "Mamba", "ForCausalLM", vocab_size=17, hidden_size=8, state_size=4, num_hidden_layers=1, pad_token_id=0
        ),
        words(2, 4, **PLAIN),
    ),
    hugging_face(
        "ViT",
        transformer("ViT", "ForImageClassification", **IMAGE, **QUIET, num_attention_heads=2, intermediate_size=12),
        pixels(4, 1, 8, 8),
    ),
    hugging_face(
        "ConvNeXt",
        transformer(
            "ConvNext",
            "ForImageClassification",
            num_channels=1,
            patch_size=2,
            hidden_sizes=[4, 8],
            depths=[1, 1],
            num_stages=2,
        ),
        pixels(4, 1, 8, 8),
    ),
    hugging_face(
        "ResNet",
        transformer(
            "ResNet",
            "ForImageClassification",
            num_channels=1,
            embedding_size=4,
            hidden_sizes=[4, 8],
            depths=[1, 1],
            layer_type="basic",
        ),
        pixels(6, 1, 16, 16),
    ),
    hugging_face(
        "SegFormer",
        transformer(
            "Segformer",
            "ForSemanticSegmentation",
            num_channels=1,
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[4, 8],
            patch_sizes=[3, 3],
            strides=[2, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=8,
            num_labels=3,
            hidden_dropout_prob=0.0,
            drop_path_rate=0.0,
            classifier_dropout_prob=0.0,
        ),
        pixels(4, 1, 16, 16),
    ),
    Case("peft: LoRA on BERT", adapted, words(4, 5), needs=["transformers", "peft"], precision=1e-5),
    Case(
        "x-transformers: decoder",
        of(
            "x_transformers",
            lambda x: x.TransformerWrapper(
                num_tokens=17,
                max_seq_len=8,
                attn_layers=x.Decoder(dim=8, depth=1, heads=2, attn_dim_head=4, alibi_pos_bias=True),
            ),
        ),
        lambda: torch.randint(17, (4, 5)),
        needs=["x_transformers"],
        precision=1e-5,
    ),
    Case(
        "einops: EinMix",
        of(
            "einops.layers.torch",
            lambda e: nn.Sequential(
                e.Rearrange("b (h w) -> b h w", h=2),
                e.EinMix("b h w -> b h c", "w c", "c", w=3, c=4),
                nn.Tanh(),
                e.Reduce("b h c -> b c", "mean"),
            ),
        ),
        randn(6, 6),
        needs=["einops"],
    ),
    Case("torch_geometric: GCN", graph(lambda g: (g.GCNConv(3, 5), g.GCNConv(5, 2))), edges, **PYG),
    Case("torch_geometric: GAT", graph(lambda g: (g.GATConv(3, 4, heads=2), g.GATv2Conv(8, 2))), edges, **PYG),
    Case(
        "torch_geometric: GIN, SAGE",
        graph(lambda g: (g.GINConv(nn.Sequential(nn.Linear(3, 5), nn.ReLU())), g.SAGEConv(5, 2))),
        edges,
        **PYG,
    ),
    Case(
        "rtdl: FT-Transformer",
        of(
            "rtdl_revisiting_models",
            lambda r: r.FTTransformer(
                n_cont_features=3,
                cat_cardinalities=[4],
                d_out=2,
                n_blocks=1,
                d_block=8,
                attention_n_heads=2,
                attention_dropout=0.0,
                ffn_d_hidden=8,
                ffn_d_hidden_multiplier=None,
                ffn_dropout=0.0,
                residual_dropout=0.0,
            ),
        ),
        lambda: (torch.randn(6, 3), torch.randint(4, (6, 1))),
        needs=["rtdl_revisiting_models"],
    ),
    Case(
        "rtdl: ResNet",
        of(
            "rtdl_revisiting_models",
            lambda r: r.ResNet(
                d_in=4, d_out=2, n_blocks=2, d_block=6, d_hidden=8, d_hidden_multiplier=None, dropout1=0.0, dropout2=0.0
            ),
        ),
        randn(8, 4),
        needs=["rtdl_revisiting_models"],
    ),
    Case(
        "rtdl: periodic embeddings",
        of(
            "rtdl_num_embeddings",
            lambda r: nn.Sequential(
                r.PeriodicEmbeddings(3, 4, n_frequencies=5, frequency_init_scale=0.5, lite=False),
                nn.Flatten(),
                nn.Linear(12, 2),
            ),
        ),
        randn(6, 3),
        needs=["rtdl_num_embeddings"],
    ),
    Case("TabNet", of("pytorch_tabnet.tab_network", tabnet), randn(8, 4), needs=["pytorch_tabnet"], refused=NO_VMAP),
    Case(
        "Linformer",
        of("linformer", lambda l: l.Linformer(dim=8, seq_len=4, depth=1, heads=2, k=2)),
        randn(4, 4, 8),
        needs=["linformer"],
    ),
    Case(
        "Performer",
        of("performer_pytorch", lambda p: p.Performer(dim=8, depth=1, heads=2, dim_head=4, nb_features=6)),
        randn(4, 4, 8),
        needs=["performer_pytorch"],
        random=True,
    ),
    Case(
        "MONAI: UNet",
        of(
            "monai.networks.nets",
            lambda m: m.UNet(
                spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1
            ),
        ),
        randn(4, 1, 8, 8),
        needs=["monai"],
    ),
]
