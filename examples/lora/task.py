"""Fine-tuning with LoRA as a task: the base is frozen, adapters and head are trained and travel."""

import domo
from examples.lora.model import Reader


class Turned:
    """Read digits that lie on their side, with a base that has read five of them upright."""

    classes = tuple("0123456789")
    data_hint = "train.npz and test.npz as `domo data split` writes them"
    loss = staticmethod(domo.cross_entropy_loss)
    evaluate = staticmethod(domo.classification_sums)

    def build_model(self):
        """The adapted model. What is frozen here does not travel; x_0 brings the base."""
        model = Reader(rank=4)
        for name, parameter in model.named_parameters():
            parameter.requires_grad = "lora_" in name or name.startswith("head.")
        return model

    def train_data(self, root, shard):
        """Digits on their side: a silo's folder, or a shard of those that come with domo."""
        return turned(domo.load_task("digits").train_data(root, shard))

    def eval_data(self, root, shard):
        """What the server model is tested on; the base has seen none of it."""
        data = domo.load_task("digits").eval_data(root, shard)
        return None if data is None else turned(data)


class Whole(Turned):
    """The same with all of the model trained, to compare with."""

    def build_model(self):
        """The model without adapters."""
        return Reader()


def turned(data):
    """Rows become columns."""
    return domo.ArrayDataset(data.inputs.transpose(2, 3).contiguous(), data.labels)
