"""How targets are fed: saved corpora, guided workers, the runner, its ledger and what it found."""
