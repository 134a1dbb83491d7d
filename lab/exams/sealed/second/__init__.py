"""The second sealed set. Who changes the engine does not read on: ``lab/exams/sealed/README.md``."""
