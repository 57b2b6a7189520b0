// The fields of the start form: which settings, in which group, with which words. Types, ranges
// and defaults come from the server's schema.

export const GROUPS = [
  {
    title: "What",
    fields: [
      { key: "task", label: "Task", help: "A named task, or module:Class that all silos can import.",
        list: "tasks", wide: true },
      { key: "method", label: "Method", choice: "methods" },
      { key: "num_rounds", label: "Rounds", help: "R, how often the model is sent round." },
      { key: "name", label: "Name", help: "Letters, digits, dot, dash. Else method and task." },
    ],
  },
  {
    title: "Who",
    fields: [
      { key: "num_silos", label: "Number of silos", help: "The first so many that enrol." },
      { key: "roster", label: "Or silos by name", help: "Commas between them.", list: "silos",
        wide: true },
      { key: "participation", label: "Silos in a round", help: "Drawn anew each round; all if empty." },
      { key: "weights", label: "Weight of a silo", help: "All the same, or by training samples." },
    ],
  },
  {
    title: "Local training",
    fields: [
      { key: "local_lr", label: "Local step size", help: "eta." },
      { key: "batch_size", label: "Batch size", unit: "samples" },
      { key: "drop_last", label: "Drop last", help: "true: a short last batch of a pass is left out." },
      { key: "local_epochs", label: "Local epochs", unit: "passes over the data in a round",
        placeholder: "1" },
      { key: "local_steps", label: "Or local steps", unit: "steps in a round" },
      { key: "weight_decay", label: "Weight decay", help: "L2, inside the gradient." },
      { key: "lr_decay", label: "Step size decay", help: "Factor at each milestone." },
      { key: "lr_milestones", label: "Milestones", help: "Shares of all rounds, such as 0.6, 0.8." },
      { key: "lr_schedule", label: "Step size schedule" },
      { key: "lr_floor", label: "Schedule's end", help: "Of a cosine or a line: share of the step size." },
      { key: "lr_warmup", label: "Warm-up", unit: "rounds" },
      { key: "lr_by", label: "Schedule goes on by" },
      { key: "local_optimizer", label: "Local optimizer", help: "SGD, or another class of torch.optim, " +
        "such as AdamW or Muon." },
      { key: "local_state", label: "Its state at round end", help: "By default what the method says." },
      { key: "personal", label: "Personal models", help: "ditto: each silo also trains a model of its own." },
      { key: "personal_prox", label: "Held near the server's", help: "lambda of Ditto." },
      { key: "clip_norm", label: "Largest gradient norm", help: "Any if empty." },
    ],
  },
  {
    title: "Momentum",
    fields: [
      { key: "server_momentum", label: "Server momentum", help: "mu_s, from 0 to below 1." },
      { key: "local_momentum", label: "Local momentum", help: "mu_l, from 0 to below 1." },
      { key: "fusion_coef", label: "Fusion", help: "beta: how much server momentum goes into " +
        "local training." },
      { key: "server_lr", label: "Server step size", help: "alpha." },
      { key: "step_norm", label: "Unequal steps", help: "per_silo: as in the paper. delta: classical " +
        "FedAvg. nova: FedNova." },
      { key: "prox", label: "Proximal term", help: "rho, FedProx's: how strongly a silo is held near " +
        "the model that it was sent." },
      { key: "adaptive_lr", label: "Adaptive step size", help: "Of the server of FedAdam and its kin, " +
        "in place of alpha." },
      { key: "adaptive_beta2", label: "Adaptive memory", help: "How long FedAdam and FedYogi remember " +
        "squares of updates." },
      { key: "adaptive_tau", label: "Adaptive tau", help: "The smaller, the more adaptive." },
    ],
  },
  {
    title: "When a silo is missing",
    folded: true,
    fields: [
      { key: "on_missing", label: "Then the round", help: "wait: waits. proceed: goes on with those " +
        "that are there. fail: the run fails." },
      { key: "min_silos", label: "Updates needed", help: "The quorum under proceed." },
      { key: "required_silos", label: "Never without", help: "Silos by name, commas between them.",
        list: "silos", wide: true },
      { key: "round_deadline_s", label: "Deadline of a round", unit: "s" },
      { key: "grace_s", label: "Grace for the others", unit: "s, once the quorum is there" },
    ],
  },
  {
    title: "Checks, traffic, testing",
    folded: true,
    fields: [
      { key: "norm_check", label: "Check of norms", help: "What happens to an update far above the " +
        "others'." },
      { key: "norm_factor", label: "Far is", unit: "times the median norm" },
      { key: "update_dtype", label: "Updates travel as", help: "16 bits halve what a silo sends." },
      { key: "evaluate_every", label: "Test every", unit: "rounds; 0: never" },
      { key: "evaluation_deadline_s", label: "Wait for last tests", unit: "s" },
      { key: "primary_metric", label: "Judged by", help: "A metric that the task measures, such as " +
        "auc; accuracy or loss by default." },
      { key: "primary_better", label: "Better is", help: "Where the metric's name does not tell." },
      { key: "stop_after", label: "Stop early after", unit: "tests without a better model" },
      { key: "stop_min_delta", label: "Better by more than" },
      { key: "initial_model", label: "Initial model", help: "A safetensors file at the coordinator.",
        wide: true },
      { key: "seed", label: "Seed" },
      { key: "threads", label: "CPU threads at a silo" },
      { key: "similarity", label: "Similarity", help: "Of shards of a public dataset: share dealt " +
        "at random." },
    ],
  },
  {
    title: "For the model's card",
    folded: true,
    fields: [
      { key: "licence", label: "Licence of the model", help: "Such as apache-2.0." },
      { key: "data_licence", label: "Licence of the data" },
      { key: "intended_use", label: "Intended use", wide: true, lines: 3 },
      { key: "limits", label: "Limits", wide: true, lines: 3 },
      { key: "notes", label: "Notes", wide: true, lines: 3 },
    ],
  },
];

/** Settings that are lists, tables of numbers or a switch: only as JSON. */
export const AS_JSON = [
  "classes", "evaluators", "images", "local_lrs", "local_optimizer_args", "local_steps_list", "participants", "private",
  "same_code",
];
