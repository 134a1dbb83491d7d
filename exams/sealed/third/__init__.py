"""The third sealed set. Who changes the engine does not read on: ``exams/sealed/README.md``."""
