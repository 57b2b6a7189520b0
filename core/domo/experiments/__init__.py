"""The paper's tables and figures as data: recipes, what is printed, claims, records of runs."""
