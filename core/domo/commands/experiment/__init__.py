"""`domo experiment`: the paper's tables and figures, run, resumed and reported."""
