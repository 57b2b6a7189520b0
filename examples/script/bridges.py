"""The bridges: a round of domo in one call of Lightning's Trainer, or of Hugging Face's."""


class Steps:
    """The batches of a round, with their number: a trainer that knows it reads none ahead."""

    def __init__(self, rnd, data):
        self.rnd, self.data = rnd, data

    def __len__(self):
        """P."""
        return self.rnd.num_steps

    def __iter__(self):
        """Batches on the model's device; after each one step is made."""
        return self.rnd.batches(self.data)


def fit_round(rnd, data, **settings):
    """Train a round of a LightningModule whose `configure_optimizers` gives rnd.optimizer()."""
    import lightning
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class Stays(SingleDeviceStrategy):
        """Leaves the model where it is: domo's update is read from its memory."""

        def teardown(self):
            pass

    if not rnd.num_steps:  # a round that only tests
        return
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "max_epochs": 1, "strategy": Stays(rnd.device)}
    rnd.model.rnd = rnd
    trainer = lightning.Trainer(**quiet, **settings)
    trainer.fit(rnd.model, Steps(rnd, data))
    rnd.log(loss=trainer.callback_metrics["train_loss"])


def train_round(rnd, data, trainer_class, **settings):
    """Train a round of a model with Hugging Face's Trainer, or a subclass of it."""
    from transformers import TrainingArguments

    class OfRound(trainer_class):
        """Steps and batches are the round's."""

        def create_optimizer(self, *args, **kwargs):
            self.optimizer = rnd.optimizer()
            return self.optimizer

        def get_train_dataloader(self):
            return Steps(rnd, data)

    if not rnd.num_steps:
        return
    quiet = {"save_strategy": "no", "logging_strategy": "no", "report_to": [], "disable_tqdm": True}
    quiet |= {"lr_scheduler_type": "constant", "max_steps": rnd.num_steps}
    arguments = TrainingArguments(**quiet, use_cpu=rnd.device.type == "cpu", **settings)
    trainer = OfRound(model=rnd.model, args=arguments, train_dataset=data)
    rnd.log(loss=trainer.train().training_loss)
